"""A dry run of a method of the user's own on one batch: mistakes are one line before the run."""

from __future__ import annotations

from contextlib import suppress

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from .. import dist
from ..errors import UsageError
from ..machine.out_of_memory import OutOfMemory, detecting_out_of_memory
from ..machine.state import in_place
from ..machine.tracking import restoring
from ..methods.base import Method
from ..step.engine import Engine
from ..types import Batch, Loss, Views
from ..usercode import blaming

RESERVED = {"step", "kind", "total", "lr", "time", "count"}  # names in the log and the meter


def dry_run_method(engine: Engine, name: str) -> None:
    """Do the first step, all but its update; the method and torch's generators stay as they are.

    Of several processes each tries it alone: the others may not be as far.
    """
    what, method, processes = f"--method {name}", engine.method, dist.world()
    engine.source.prepare(0)
    with (
        suppress(OutOfMemory),  # the run itself may find some
        torch.random.fork_rng([engine.device] if engine.stream else []),
        engine.on_stream(),
        dist.acting_alone(),
        restoring(method, weights=True),
        blaming(what, "a first step"),
        detecting_out_of_memory(),
        in_place(method, what),
    ):
        batch = whole_batch(engine.batch(engine.device_step), processes)
        with engine.precision():
            loss = method(batch)
        check_loss(loss, what)
        try:
            loss.total.backward()
        finally:
            engine.optimizer.zero_grad()
        method.after_step()


def whole_batch(batch: Batch, processes: int) -> Batch:
    """As many rows as all processes have together: what is gathered has the shape it will have."""
    joined: Batch = pytree.tree_map(lambda t: torch.cat([t] * processes) if t.ndim else t, batch)
    return joined


def check_built(method: Method, what: str) -> None:
    """Refuse what no engine can be made of."""
    if not isinstance(method.views, Views):
        raise UsageError(
            f"{what}: views must be tamatch.types.Views(x=(…), u=(…)), not "
            f"{type(method.views).__name__}."
        )
    for name in (name for name, weight in method.named_parameters() if is_lazy(weight)):
        raise UsageError(
            f"{what}: its {name} has no shape before the first step, but the optimizer needs one. "
            "The width of the net's features is net.width."
        )


def check_loss(found: object, what: str) -> None:
    if not isinstance(found, Loss):
        kind = type(found).__name__
        raise UsageError(
            f"{what}: forward must return tamatch.types.Loss(total, parts), not {kind}."
        )
    if not isinstance(found.total, Tensor) or found.total.numel() != 1:
        raise UsageError(
            f"{what}: the total of its loss must be a tensor with one number: take the mean."
        )
    if not found.total.requires_grad:
        raise UsageError(
            f"{what}: the total of its loss has no gradient, so nothing can be trained."
        )
    for part, value in found.parts.items():
        if not isinstance(value, Tensor):
            kind = type(value).__name__
            raise UsageError(f"{what}: the part {part!r} of its loss must be a tensor, not {kind}.")
        if part in RESERVED:
            raise UsageError(
                f"{what}: {part!r} cannot be the name of a part of its loss, as the log uses it "
                "for something else. Rename it."
            )
