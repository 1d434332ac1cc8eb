"""BatchNorm's running statistics: switching their updates on and off, and undoing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def norms_of(*modules: nn.Module) -> list[_BatchNorm]:
    return [m for module in modules for m in module.modules() if isinstance(m, _BatchNorm)]


@contextmanager
def tracking(norms: Sequence[_BatchNorm], tracked: Sequence[bool]) -> Iterator[None]:
    """Set for each layer whether it updates its running statistics in here."""
    before = [norm.track_running_stats for norm in norms]
    try:
        for norm, now in zip(norms, tracked, strict=True):
            norm.track_running_stats = now
        yield
    finally:
        for norm, then in zip(norms, before, strict=True):
            norm.track_running_stats = then


@contextmanager
def restoring(module: nn.Module, *, weights: bool = False) -> Iterator[None]:
    """Restore the module's buffers (BatchNorm's statistics) afterwards, and with `weights` also its
    parameters.
    """
    tensors = [*module.buffers(), *(module.parameters() if weights else ())]
    before = [tensor.detach().clone() for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)
