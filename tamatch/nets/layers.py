"""What nets are made of: BatchNorm over all processes, and blocks that recompute activations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from .. import dist
from ..errors import UsageError
from ..modules import norms_of, restoring, tracking

T = TypeVar("T")


class BatchNorm2d(nn.BatchNorm2d):
    """Torch's own in a process that is alone, and its equal over all processes otherwise.

    Torch's SyncBatchNorm does the same on GPUs and refuses to on CPUs.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (N, C, H, W), where N images are this process's share of the batch."""
        if dist.alone() or not self.training:
            return super().forward(x)
        return self.joint(x)

    def joint(self, x: Tensor) -> Tensor:
        """Normalise by the moments over all processes."""
        wide = x.to(self.weight.dtype)
        mean, var = joint_moments(wide)
        if self.track_running_stats:
            self.follow_(mean, var, x.numel() // len(mean) * dist.world())
        scale = self.weight * (var + self.eps).rsqrt()
        shift = self.bias - mean * scale
        normalised = wide * scale.to(wide)[:, None, None] + shift.to(wide)[:, None, None]
        return normalised.to(x.dtype)

    @torch.no_grad()
    def follow_(self, mean: Tensor, var: Tensor, count: int) -> None:
        """Move the running statistics as torch does: the variance as that of a sample."""
        assert self.running_mean is not None and self.running_var is not None
        assert self.num_batches_tracked is not None and self.momentum is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
        sample = var * (count / max(count - 1, 1))
        self.running_var.lerp_(sample.to(self.running_var), self.momentum)


def joint_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel over all processes, which have equally many images.

    In double precision, since the variance is a difference of two averages: E[x²] − E[x]².
    """
    var, mean = (m.double() for m in torch.var_mean(x, (0, 2, 3), correction=0))
    mean, square = dist.mean(torch.stack([mean, var + mean.square()]))
    return mean, square - mean.square()


def share_norms(method: nn.Module) -> None:
    """Where there are several processes, let a net of any origin normalise over all of them."""
    for name, norm in method.named_modules():
        if dist.alone() or not isinstance(norm, _BatchNorm) or isinstance(norm, BatchNorm2d):
            continue
        if type(norm) is not nn.BatchNorm2d or norm.momentum is None or not norm.affine:
            raise UsageError(
                f"{name} is a {type(norm).__name__}, which would normalise the images of each "
                "process separately. Train this net in one process."
            )
        norm.__class__ = BatchNorm2d


def set_momentum(method: nn.Module, momentum: float) -> None:
    """How much one batch moves the running statistics: small batches want it small."""
    for norm in norms_of(method):
        norm.momentum = momentum


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
