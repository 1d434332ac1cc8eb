"""The residual nets' training by kernels of our own, on a GPU and in one process.

BatchNorm, activation and the sum before them would read and write each feature map many times;
here it is a few. Convolutions are cuDNN's, but those of few channels have kernels of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from ...machine.branches import Beside
from ..base import recomputes
from ..wrn import Flow, Parts
from . import cuda
from .conv import Convolve, Stem
from .conv3 import Norm, NormConvolve
from .narrow import LEAST
from .norm import COUNTABLE, NormAct

ALIGNED = 8  # numbers of two bytes or more
Layout = tuple[torch.Size, tuple[int, ...]]  # shape and strides


def prepare(device: torch.device) -> None:
    """Start compiling the CUDA kernels, which takes seconds, before the first step."""
    if cuda.capable(device):
        cuda.compiling(device)


def at_the_weights(beside: Beside, lacking: dict[int, Norm]) -> Callable[..., None]:
    """A function for the backward pass to call once all weights have gradients.

    It refers to these two arguments only. With a reference to the `Fused`, whose weights refer to
    this function, it would keep the memory of a pass until the garbage collector runs.
    """

    def join(*grads: Tensor) -> None:
        assert not lacking, "a gradient went to another layer than the one that completes it"
        beside.join(*grads)

    return join


class Fused(Parts):
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
        if not cuda.fits(flow.branch, conv.weight, conv.stride[0]):
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
        mean: Tensor = ChannelMean.apply(x, dtype)
        return mean


class ChannelMean(Function):
    """The mean of each channel. Its gradient is the same for all pixels, and rounded only once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.shape, ctx.dtype = x.shape, x.dtype
        return x.mean((2, 3), dtype=dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        pixels = ctx.shape[2] * ctx.shape[3]
        return (grad / pixels).to(ctx.dtype)[:, :, None, None].expand(ctx.shape), None


class Rounded(Function):
    """All weights in another precision; back, their gradients in the weights' own.

    Autocast would round each weight by a kernel of its own, there and back.
    """

    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, join: Callable[..., None], *weights: Tensor
    ) -> tuple[Tensor, ...]:
        """`join` is called with the gradients before they are read."""
        ctx.dtype, ctx.join = weights[0].dtype, join
        ctx.layouts = [(weight.shape, weight.stride()) for weight in weights]
        return in_line(weights, [in_rows(weight) for weight in weights], dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        ctx.join(*grads)
        return None, None, *in_line(grads, ctx.layouts, ctx.dtype)


def in_rows(weight: Tensor) -> Layout:
    """Channels-last, as the kernels read it; a net may keep it otherwise."""
    order = torch.channels_last
    if not weight.is_contiguous(memory_format=order):
        weight = torch.empty_like(weight, device="meta", memory_format=order)
    return weight.shape, weight.stride()


def in_line(
    tensors: Sequence[Tensor], layouts: Sequence[Layout], dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """Copies that lie one behind the other in memory, each where a load of 16 bytes may begin."""
    sizes = [-(-tensor.numel() // ALIGNED) * ALIGNED for tensor in tensors]
    parts = torch.split(torch.empty(sum(sizes), dtype=dtype, device=tensors[0].device), sizes)
    copies = [
        part.as_strided(*layout, part.storage_offset())
        for part, layout in zip(parts, layouts, strict=True)
    ]
    torch._foreach_copy_(copies, list(tensors))
    return tuple(copies)
