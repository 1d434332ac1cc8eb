"""The residual nets' training by kernels of our own, on a GPU and in one process.

BatchNorm, activation and the sum before them would read and write each feature map many times;
here it is a few. Convolutions are cuDNN's, but those of few channels have kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from ..parts import Flow, Plain
from ..recompute import recomputes
from . import conv3, cuda
from .beside import Beside
from .conv import Convolve
from .conv3 import Norm, NormConvolve
from .narrow import LEAST
from .norm import COUNTABLE, NormAct
from .rounded import Rounded
from .stem import Stem


def prepare(device: torch.device) -> None:
    """Begin with what takes seconds: the first step will want it."""
    if cuda.capable(device):
        cuda.compiling(device)


def at_the_weights(beside: Beside, lacking: dict[int, Norm]) -> Callable[..., None]:
    """What a backward pass does after the last gradient of a weight, and before any is read.

    It must not know the parts, whose weights know it: a ring of them would outlive the pass.
    """

    def join(*grads: Tensor) -> None:
        assert not lacking, "a gradient went to another layer than the one that completes it"
        beside.join(*grads)

    return join


class Fused(Plain):
    """The parts of a residual net by these kernels; made anew for each forward pass."""

    def __init__(self, net: nn.Module) -> None:
        convs = [module for module in net.modules() if isinstance(module, nn.Conv2d)]
        weights = [conv.weight for conv in convs]
        autocast = torch.is_autocast_enabled("cuda")
        self.dtype = torch.get_autocast_dtype("cuda") if autocast else weights[0].dtype
        self.beside = Beside(sparing=recomputes(net))
        self.arrived = torch.zeros(cuda.GROUPS + 1, dtype=torch.int32, device=weights[0].device)
        self.lacking: dict[int, Norm] = {}
        self.upside_down = False
        rounded = Rounded.apply(self.dtype, at_the_weights(self.beside, self.lacking), *weights)
        self.weights = dict(zip(convs, rounded, strict=True))

    def norm(self, norm: nn.BatchNorm2d, flow: Flow) -> tuple[Tensor, Tensor]:
        branch, skip, _ = flow
        if not 0 < branch.numel() <= COUNTABLE:
            return super().norm(norm, flow)
        with torch.cuda.device_of(branch):  # kernels would be started on the current device
            x, h = NormAct.apply(branch, skip, norm.weight, norm.bias, norm)
        return branch if x is None else x, h

    def norm_conv(
        self, norm: nn.BatchNorm2d, conv: nn.Conv2d, flow: Flow, skip: Tensor | None = None
    ) -> tuple[Tensor, Flow]:
        if not conv3.fits(flow.branch, conv):
            return super().norm_conv(norm, conv, flow, skip)
        self.upside_down = not self.upside_down
        if flow.statistics is None:
            x, h = self.norm(norm, flow)
        else:
            x = h = flow.branch
        with torch.cuda.device_of(h):
            whole, y, statistics = NormConvolve.apply(
                h, flow.statistics, norm.weight, norm.bias, self.weights[conv], skip, norm,
                self.arrived, self.beside, self.lacking, self.upside_down,
            )  # fmt: skip
        return whole if x is h else x, Flow(y, None, statistics)

    def conv(self, conv: nn.Conv2d, x: Tensor) -> Tensor:
        weight, first = self.weights[conv], conv.bias is not None
        if first and len(x) * x.shape[2] * x.shape[3] * LEAST > COUNTABLE:
            return super().conv(conv, x)
        with torch.cuda.device_of(x):
            y: Tensor = (
                Stem.apply(x, weight, conv.bias)
                if first
                else Convolve.apply(x, weight, conv.stride[0], conv.padding[0], self.beside)
            )
        return y

    def pool(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        mean: Tensor = Pool.apply(x, dtype)
        return mean


class Pool(Function):
    """The mean of each channel. Its gradient is the same for all pixels, and rounded only once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.shape, ctx.dtype = x.shape, x.dtype
        return x.mean((2, 3), dtype=dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        pixels = ctx.shape[2] * ctx.shape[3]
        return (grad / pixels).to(ctx.dtype)[:, :, None, None].expand(ctx.shape), None
