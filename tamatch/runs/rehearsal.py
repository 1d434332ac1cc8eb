"""A method of the user's own is tried on one batch before a run: mistakes are told in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor, nn

from .. import dist
from ..errors import UsageError
from ..machine.room import NoRoom, noticing
from ..step.engine import Engine
from ..types import Loss
from ..usercode import blaming


def try_method(engine: Engine, name: str) -> None:
    """Look at the loss of the first batch; the method and torch's generator stay as they are."""
    if not dist.alone():  # the others would have to take part
        return
    what, method = f"--method {name}", engine.method
    engine.source.prepare(0)
    with (
        suppress(NoRoom),  # the run itself may find some
        torch.random.fork_rng(devices=[]),
        engine.on_stream(),
        engine.precision(),
        kept_buffers(method),
        blaming(what, "a first step"),
        noticing(),
    ):
        check(method(engine.batch(engine.at)), what)


def check(found: object, what: str) -> None:
    if not isinstance(found, Loss):
        kind = type(found).__name__
        raise UsageError(
            f"{what}: forward must return tamatch.types.Loss(total, parts), not {kind}."
        )
    if not isinstance(found.total, Tensor) or found.total.numel() != 1:
        raise UsageError(
            f"{what}: the total of its loss must be one number, as a tensor: take a mean."
        )
    if not found.total.requires_grad:
        raise UsageError(f"{what}: nothing can learn from its loss. Its total has no gradient.")
    for part, value in found.parts.items():
        if not isinstance(value, Tensor):
            kind = type(value).__name__
            raise UsageError(f"{what}: the part {part!r} of its loss must be a tensor, not {kind}.")


@contextmanager
def kept_buffers(module: nn.Module) -> Iterator[None]:
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
