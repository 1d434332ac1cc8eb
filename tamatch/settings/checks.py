"""Settings that are valid one by one, but not together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from .. import nets
from ..errors import UsageError
from ..machine import launch
from ..methods import METHODS, entry
from ..rules import recipes
from ..storage.events import check_installed
from .config import RUN_OPTIONS, Run
from .options import as_text, flag_of

BY_CONFIDENCE = ("gaussian", "class*gaussian")
SOLVED = ("tamatch", "supervised")  # methods that are solved at once on frozen features
READ_WITH = {  # options that only some parts of a method read: which choice, and its values
    "tau": ("select", ("fixed", "relative", "flexmatch")),
    "clip": ("weigh", ("class", "class*gaussian")),
    "n_sigma": ("weigh", BY_CONFIDENCE),
    "learn_from": ("weigh", BY_CONFIDENCE),
}


def check_fixed(method: str, chosen: Mapping[str, Any]) -> None:
    """What the table fixes makes a method what its title says."""
    row = entry(method)
    for name, value in row.options.items():
        if chosen[name] != value:
            free = next(
                k for k, other in METHODS.items() if other.path == row.path and not other.options
            )
            flag = flag_of(name)
            raise UsageError(
                f"{method} fixes {flag} at {as_text(value)}. For {flag} {as_text(chosen[name])}, "
                f"use --method {free}."
            )


def check_effective(chosen: Mapping[str, Any], given: Iterable[str]) -> None:
    """Refuse options that the chosen parts of the method would ignore."""
    for name in given:
        choice, readers = READ_WITH.get(name, ("", ()))
        if isinstance(part := chosen.get(choice), str) and part not in readers:
            raise UsageError(
                f"{flag_of(name)} has no effect with --{choice} {part}: it applies only to "
                f"--{choice} {' or '.join(readers)}."
            )


def check_together(values: dict[str, Any]) -> None:
    """Options that contradict each other, or need what is not there."""
    if values.get("tensorboard"):
        check_installed()
    if nets.is_frozen(values["net"]):
        check_frozen(values)
    elif values.get("from_") and values.get("weights"):
        raise UsageError("--from and --weights both set the initial weights: give only one.")
    if values.get("labels") and (data := values.get("data", Run.data)) in recipes.PROTOCOLS:
        raise UsageError(
            f"--labels adds labels to your own images, but {data} is already fully labelled. Give "
            "the folder of your images: --data DIR."
        )
    for name in ("labels_per_class", "head_labelled"):
        if values.get("labels") and values.get(name):
            raise UsageError(
                f"--labels adds labels and {RUN_OPTIONS[name].flag} hides some: give only one."
            )


def check_frozen(values: Mapping[str, Any]) -> None:
    """A net that is not trained has features only with weights, and two ways to learn on them."""
    net, method = values["net"], values.get("method", Run.method)
    if values.get("weights") is None:
        raise UsageError(f"--net {net} is not trained, so it needs --weights.")
    if method not in SOLVED:
        raise UsageError(
            f"--method {method} trains a net, but {net} is not trained: use --net "
            f"{net.removeprefix(nets.FROZEN)}, or --method {' or '.join(SOLVED)}."
        )


def check_processes(run: Run) -> None:
    """The processes that torchrun started must have equal shares of a batch."""
    count, whole = launch.processes(), math.gcd(run.batch, run.unlabelled)
    if whole % count:
        fit = [str(n) for n in range(1, whole + 1) if whole % n == 0]
        raise UsageError(
            f"{count} processes cannot share --batch {run.batch} and --unlabelled {run.unlabelled} "
            f"evenly. Possible numbers of processes: {', '.join(fit)}. The batch is that of all "
            "processes together."
        )
