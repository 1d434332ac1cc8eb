"""What every net of this package is, images in and `Out` out, and the layers that nets share.

These are BatchNorm over all processes, and blocks that recompute activations.
"""

from __future__ import annotations

import sys
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
from ..machine.precision import without_autocast
from ..modules import norms_of, restoring, tracking
from ..types import Out

T = TypeVar("T")


def uncompiled() -> AbstractContextManager[None]:
    """Run nets eagerly outside of a step: they are compiled for its shapes only."""
    if "torch._dynamo" in sys.modules:
        return cast("AbstractContextManager[None]", torch.compiler.set_stance("force_eager"))
    return nullcontext()  # nothing is compiled yet, and torch's compiler loads slowly


class Net(nn.Module):
    """A classifier that also shows its features. Subclasses compute features; `finish` the rest."""

    head: nn.Linear
    channels_last = True  # whether it can work on images and weights in that order
    headless = False  # whether `loadable` is the net without its head
    independent = False  # whether what it says about an image depends on no other one of the batch
    has_cuda_code = False  # whether some of it, once accelerated, is compiled by NVRTC
    rehearsable = False  # whether it has kernels of our own, which are compiled when first started
    repaid = 25_000  # steps that repay compiling: some 35 s once, for about 2 ms of each step
    sync_point: str | None = None  # where it makes the host wait for the device: no CUDA graph then

    def __init__(self, *, classes: int, width: int, map_width: int) -> None:
        super().__init__()
        self.classes = classes
        self.width = width  # length of Out.features rows
        self.map_width = map_width  # numbers of an image in Out.map

    def forward(self, images: Tensor) -> Out:
        """Classify (N, 3, H, W) images."""
        raise NotImplementedError

    @property
    def frozen_width(self) -> int:
        """Length of a row of `frozen_features`."""
        return self.width

    @property
    def frozen_upper(self) -> int:
        """How many of these tell what the net as a whole sees; the others are of lower layers."""
        return self.frozen_width

    def frozen_features(self, images: Tensor) -> Tensor:
        """Features of (N, 3, H, W) images for a classifier on top, while the net is not trained."""
        return cast(Out, self(images)).features.float()

    def accelerate(self, *, compiling: bool = True, kernels: bool = True) -> None:
        """Become as fast as possible on a GPU; changes no state and no result but by rounding.

        Without `compiling`, only by what is ready within seconds; without `kernels`, by torch's
        compiler alone.
        """
        if compiling:
            self.compile()

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """The layer a parameter belongs to, counted from the stem (0), and the head's layer."""
        raise UsageError(
            "--layer-decay needs the depth of each layer, which this net does not provide: give "
            "it a method depth_of(name) that returns the layer of a parameter and that of the "
            "head, or use --layer-decay 1."
        )

    def loadable(self) -> nn.Module:
        """The part whose parameter names are those of weight files."""
        return self

    def converted(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """A file's tensors with the names and shapes that the net's own library gives them."""
        return tensors

    def finish(self, features: Tensor, feature_map: Tensor) -> Out:
        """Apply the head in the parameters' own precision, also where the net ran in bfloat16.

        Thresholds compare probabilities with 0.95; bfloat16 logits would blur that by about 0.002.
        """
        dtype = self.head.weight.dtype
        with without_autocast(features.device):
            features = features.to(dtype)
            return Out(self.head(features), features, feature_map)


class BatchNorm2d(nn.BatchNorm2d):
    """Torch's own in a single process; in several, the same by the moments over all of them.

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
        """Contexts of both computations: after the second one, buffers are as they were."""
        norms = norms_of(self)
        return nullcontext(), self._again(norms, [norm.track_running_stats for norm in norms])

    @contextmanager
    def _again(self, norms: list[_BatchNorm], tracked: list[bool]) -> Iterator[None]:
        with restoring(self), tracking(norms, tracked):
            yield


def recompute(module: nn.Module, *, wanted: bool = True) -> bool:
    """Set whether the blocks that can recompute do so; returns whether that changed any."""
    blocks = [m for m in module.modules() if isinstance(m, Recomputing) and m.recompute != wanted]
    for block in blocks:
        block.recompute = wanted
    return bool(blocks)


def recomputes(module: nn.Module) -> bool:
    """Whether a block of the module recomputes its activations now."""
    return any(isinstance(m, Recomputing) and m.recompute for m in module.modules())
