"""What a method remembers, under the names of its reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tamatch.methods.base import Method

from .base import SlowMethod
from .records import Values


def status_of(method: Any) -> Any:
    """The learning status, wherever the method keeps it."""
    owner = getattr(method, "labeler", method)
    return getattr(owner, "status", None)


def running(method: Any) -> dict[str, Tensor]:
    """Both running class shares."""
    status = status_of(method)
    return {"p_model": status.model.value, "p_target": status.target.value}


def queue(method: Any) -> dict[str, Tensor]:
    """The alignment's last batches."""
    window = method.status.model
    return {"queue": window.rows, "queue_pointer": window.at}


def adaptive(method: Any) -> dict[str, Tensor]:
    """FreeMatch's thresholds, and what its fairness term knows."""
    select, fairness = method.labeler.select, method.fairness
    return {
        "threshold": select.threshold.value,
        "class_means": select.shares.value,
        "class_means of fairness": fairness.shares.value,
        "class_counts": fairness.histogram.value,
    }


# Where each method keeps what its reference remembers; the tensors themselves, not copies.
STORED: dict[str, Callable[[Any], dict[str, Tensor]]] = {
    "mean_teacher": lambda m: {f"teacher.{k}": p for k, p in m.average.named_parameters()},
    "remixmatch": running,
    "adamatch": running,
    "tamatch": running,
    "tamatch_lt": lambda m: {
        "p_model": m.labeler.status.model.value,
        **({} if m.used is None else {"used": m.used.value}),
    },
    "saw": lambda m: {"label_shares": m.labeler.weigh.shares.value},
    "acr": lambda m: {"shares": m.shares.value},
    "ccl": lambda m: {"pool": m.pool.value, "used": m.used.value},
    "cdmad": lambda m: {"bias": m.bias},
    "daso": lambda m: {
        **{f"teacher.{k}": p for k, p in m.average.named_parameters()},
        "bank": m.bank.view(len(m.seen), m.rows, -1),
        "seen": m.seen,
        "shares": m.shares.value,
    },
    "simpro": lambda m: {"pool": m.pool.value, "whole": m.whole.value},
    "softmatch": lambda m: {
        "p_model": m.labeler.status.model.value,
        "mean": m.labeler.weigh.mean.value,
        "variance": m.labeler.weigh.variance.value,
    },
    "flexmatch": lambda m: {
        "memory": m.labeler.select.labels,
        "counts": m.labeler.select.counts,
        "beta": m.labeler.select.beta,
    },
    "freematch": adaptive,
    "regmixmatch": adaptive,
    "dash": lambda m: {"rho_init": m.rho_init},
    "comatch": lambda m: {
        "bank_features": m.memory.f,
        "bank_p": m.memory.p,
        "bank_pointer": m.memory.at,
        **queue(m),
    },
    "simmatch": lambda m: {"bank": m.bank.T, "bank_labels": m.labels, **queue(m)},
}


def name_of(reference: SlowMethod) -> str:
    """Its name in the table of references."""
    return type(reference).__module__.rpartition(".")[2]


def stored(method: Method, reference: SlowMethod) -> dict[str, Tensor]:
    """The method's state under the reference's names."""
    return STORED.get(name_of(reference), lambda m: {})(method)


def expected_state(reference: SlowMethod) -> Values:
    """The reference's state in the form in which the method stores it."""
    state: dict[str, npt.NDArray[Any]] = dict(reference.state)
    name = name_of(reference)
    if name == "flexmatch":  # the method counts "never sure" as one more class
        none = reference.facts.classes
        state["memory"] = np.where(state["memory"] < 0, none, state["memory"])
        state["counts"] = np.bincount(state["memory"], minlength=none + 1)
    if "class_counts" in state:  # FreeMatch, and who builds on it
        state["class_means of fairness"] = state["class_means"]
    if name == "dash":  # ρ and k follow from the step, and the losses are summed
        state = {"rho_init": state["rho_init"]}
    return state


def load_state(method: Method, reference: SlowMethod) -> None:
    """Give the method what the reference remembers."""
    tensors = stored(method, reference)
    with torch.no_grad():
        for name, value in expected_state(reference).items():
            tensors[name].copy_(torch.tensor(value))
        if "p_model" in reference.state:
            status_of(method).model.fresh.zero_()
