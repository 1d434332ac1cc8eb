"""Tries a method of the user's own before its run, so that each mistake is told in one line.

Methods and engines are defined in layers above this one, so they are `Any` here.
"""

import inspect
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from .. import dist
from ..errors import UsageError
from ..machine.memory import OutOfMemory, detecting_out_of_memory
from ..modules import Shifted, restoring, unshifted
from ..types import Batch, Loss, Views
from .net import CopyDetector, SyncDetector
from .state import check_resume, refuse_loose_weights
from .usercode import blaming

RESERVED = {"step", "kind", "total", "lr", "time", "count"}  # names in the log and the meter
NETS = ("net", "average")  # parts of a method that are tried as nets


def try_method(engine: Any, what: str, fresh: Callable[[], Any]) -> str | None:
    """Do two steps without updates, and repeat the second in a `fresh` method with the saved state.

    The engine's method and torch's generators stay as they are; other processes take no part.
    Returns where the method makes the host wait for the device, if it does.
    """
    waits, processes = SyncDetector(), dist.world()

    def step(method: Any, number: int) -> Tensor:
        torch.manual_seed(number)
        engine.source.prepare(number)
        # as many rows as all processes have together: what is gathered has its later shape
        batch: Batch = pytree.tree_map(
            lambda t: torch.cat([t] * processes) if t.ndim else t,
            engine.batch(engine.device_step + number),
        )
        with engine.precision(), ExitStack() as noting:
            noting.enter_context(waits)
            if engine.device.type == "cpu":
                noting.enter_context(CopyDetector(waits))
            loss = method(batch)
        check_loss(loss, what)
        loss.total.backward()
        method.zero_grad()
        method.after_step()
        total: Tensor = loss.total.detach()
        return total

    with (
        suppress(OutOfMemory),  # the run itself may find some
        engine.on_stream(),
        torch.random.fork_rng([engine.device] if engine.stream else []),
        dist.acting_alone(),
        restoring(engine.method, weights=True),
        blaming(what, "a first step"),
        detecting_out_of_memory(),
    ):
        try:
            check_average(check_resume(engine.method, fresh, step, what, NETS), what)
        finally:
            engine.optimizer.zero_grad()
            engine.source.prepare(0)
    return waits.place


@torch.no_grad()
def check_average(method: Any, what: str) -> None:
    """Call `after_step` with other weights; refuse one that leaves their average as it was."""
    tested = method.average is unshifted(method.final) and method.ema < 1
    averaged = list(method.final.parameters()) if tested else []
    before = [weight.clone() for weight in averaged]
    for weight in method.net.parameters():
        weight.add_(1)
    method.after_step()
    if averaged and all(map(torch.equal, averaged, before)):
        raise UsageError(
            f"{what}: its after_step does not move the averaged weights (--ema), which are tested "
            "and exported: call super().after_step()."
        )


def check_constructor(cls: type, what: str) -> None:
    """Refuse a constructor that does not take what every method is given."""
    parameters = inspect.signature(cls).parameters
    if "ema" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    raise UsageError(
        f"{what}: its __init__ must take what every method takes: add `**base` to its parameters, "
        "and pass it on with `super().__init__(net, task, **base)`."
    )


def check_built(
    method: Any, what: str, tensors: Collection[str], known_views: Collection[str]
) -> None:
    """Refuse a method that cannot be trained, saved or exported; its net has these tensors."""
    if not isinstance(method.views, Views):
        raise UsageError(
            f"{what}: views must be tamatch.types.Views(x=(…), u=(…)), not "
            f"{type(method.views).__name__}."
        )
    for name in (name for name, views in method.views._asdict().items() if isinstance(views, str)):
        raise UsageError(
            f"{what}: its views of {name} must be a tuple, with a comma even if there is one: "
            f"Views({name}=({getattr(method.views, name)!r},))."
        )
    for view in (view for view in (*method.views.x, *method.views.u) if view not in known_views):
        raise UsageError(
            f"{what}: its view {view!r} is unknown; known are {', '.join(known_views)}."
        )
    for name in (name for name, weight in method.named_parameters() if is_lazy(weight)):
        raise UsageError(
            f"{what}: its {name} has no shape before the first step, but the optimizer needs one. "
            "The width of the net's features is net.width."
        )
    check_net("net", method.net, what, tensors)
    with blaming(what, "its final"):
        final = method.final
    check_net("final", final.net if isinstance(final, Shifted) else final, what, tensors)
    classes = (method.task.classes,)
    if isinstance(final, Shifted) and final.logit_shift.shape != classes:
        raise UsageError(
            f"{what}: the shift of its final must have one number for each class, shape {classes}, "
            f"not {tuple(final.logit_shift.shape)}."
        )
    refuse_loose_weights(method, what, NETS)


def check_net(name: str, net: object, what: str, tensors: Collection[str]) -> None:
    """Refuse a net that cannot be exported in place of the one that has these tensors."""
    if not isinstance(net, nn.Module):
        raise UsageError(f"{what}: its {name} must be a net, not {type(net).__name__}.")
    now = net.state_dict().keys()
    for tensor in (tensor for tensor in tensors if tensor not in now):
        raise UsageError(
            f"{what}: its {name} lacks {tensor}, which is exported under this name. Use the net "
            "that the method was given, or a copy of it, or tamatch.modules.Shifted(net, "
            "shift), without another module around it."
        )
    for tensor in (tensor for tensor in now if tensor not in tensors):
        raise UsageError(
            f"{what}: it adds {tensor} to the net, which is tested, averaged and exported without "
            "it. Make heads attributes of the method, as in `self.head = nn.Linear(…)`."
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
    values = {**{f"part {name!r}": v for name, v in found.parts.items()}, "total": found.total}
    for name in (name for name, value in values.items() if not value.isfinite().all()):
        raise UsageError(
            f"{what}: the {name} of its loss is not finite in the first step. Look for a division "
            "by zero, a logarithm of zero, or the mean of a selection that is empty."
        )
