"""BatchNorm's running statistics: whether a pass moves them, and whether that lasts."""

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
    """Whether each of these moves its running statistics in here, or does not even write them."""
    before = [norm.track_running_stats for norm in norms]
    try:
        for norm, now in zip(norms, tracked, strict=True):
            norm.track_running_stats = now
        yield
    finally:
        for norm, then in zip(norms, before, strict=True):
            norm.track_running_stats = then


@contextmanager
def unmoved(module: nn.Module, *, weights: bool = False) -> Iterator[None]:
    """Whatever runs in here, the module's buffers (BatchNorm's statistics) end as they began.

    So do its `weights`, where something else than an optimizer might move them.
    """
    tensors = [*module.buffers(), *(module.parameters() if weights else ())]
    before = [tensor.detach().clone() for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)
