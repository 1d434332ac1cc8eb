"""Blocks that can compute activations a second time instead of keeping them: less memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar, cast

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from ..modules import norms_of, restoring, tracking

T = TypeVar("T")


class Recomputing(nn.Module):
    """A block that keeps nothing but its input for the backward pass, if it is asked to."""

    recompute = False

    def keep_or_recompute(self, part: Callable[..., T], *inputs: Any) -> T:
        """Apply a part of the block. It must not draw random numbers: they would differ."""
        if not (self.recompute and torch.is_grad_enabled()):
            return part(*inputs)
        again = partial(checkpoint, part, *inputs, use_reentrant=False, preserve_rng_state=False)
        if torch.compiler.is_compiling():  # compiled code moves the statistics once by itself
            return cast(T, again())
        return cast(T, again(context_fn=self._contexts))

    def _contexts(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """What surrounds the first and the second computation, which are to be the same."""
        norms = norms_of(self)
        return nullcontext(), self._again(norms, [norm.track_running_stats for norm in norms])

    @contextmanager
    def _again(self, norms: list[_BatchNorm], tracked: list[bool]) -> Iterator[None]:
        with restoring(self), tracking(norms, tracked):
            yield


def recompute(module: nn.Module, *, wanted: bool = True) -> bool:
    """Set all blocks that can do so to recompute, or not to; False if that changes none."""
    blocks = [m for m in module.modules() if isinstance(m, Recomputing) and m.recompute != wanted]
    for block in blocks:
        block.recompute = wanted
    return bool(blocks)


def recomputes(module: nn.Module) -> bool:
    """Whether a block of the module does so now."""
    return any(isinstance(m, Recomputing) and m.recompute for m in module.modules())
