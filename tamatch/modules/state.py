"""The state of a module of the user's own: what averages, checkpoints and recorded steps need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeGuard

from torch import nn
from torch.nn.parameter import is_lazy

from ..errors import UsageError


def make_buffers_contiguous(module: nn.Module) -> None:
    """Make buffers contiguous: elements of an expanded one share memory, and cannot be written."""
    for part in module.modules():
        for name, buffer in part._buffers.items():
            if buffer is not None and not is_lazy(buffer):
                part._buffers[name] = buffer.contiguous()


@contextmanager
def in_place(module: nn.Module, what: str) -> Iterator[None]:
    """Refuse a module that replaces a buffer in here, writes one that is not saved, or counts in
    Python.
    """
    buffers = dict(module.named_buffers())
    unsaved = {name: buffers[name]._version for name in buffers.keys() - module.state_dict().keys()}
    attributes = {name: dict(vars(part)) for name, part in module.named_modules()}
    yield
    after = dict(module.named_buffers())
    for name in (n for n in {**buffers, **after} if after.get(n) is not buffers.get(n)):
        raise UsageError(
            f"{what}: its buffer {name} is replaced in a step. Weight averages, checkpoints and "
            "CUDA graphs use the tensor that __init__ registers: write into it, with "
            f"`self.{leaf(name)}.copy_(…)` or as in `self.{leaf(name)}.mul_(0.9).add_(…)`."
        )
    for name in (n for n, version in unsaved.items() if buffers[n]._version != version):
        raise UsageError(
            f"{what}: its buffer {name} changes in a step, but is not saved: register it without "
            "`persistent=False`."
        )
    for place, part in module.named_modules():
        for name, value in vars(part).items():
            # a number that is new here was not counted up: it is only kept for another place
            before = attributes.get(place, {}).get(name, getattr(type(part), name, None))
            if is_number(value) and is_number(before) and before is not value and before != value:
                raise UsageError(
                    f"{what}: its number {place + '.' if place else ''}{name} changes in a step. "
                    "It is not saved, and keeps its first value in a CUDA graph: make it a buffer "
                    f"and write into it, as in `self.{name}.add_(1)`."
                )


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def leaf(name: str) -> str:
    return name.rpartition(".")[2]
