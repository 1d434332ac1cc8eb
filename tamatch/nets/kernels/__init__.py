"""The residual nets' training by kernels of our own, on a GPU and in one process.

BatchNorm, activation and the sum before them would read and write each feature map many times;
here it is a few. Convolutions are cuDNN's, but those of few channels have kernels of their own.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tamatch.nets.parts import Flow, Plain

from . import conv3, cuda
from .beside import Beside
from .conv import Convolve
from .conv3 import NormConvolve
from .narrow import LEAST
from .norm import COUNTABLE, NormAct, as_rows
from .rounded import Rounded


class Fused(Plain):
    """The parts of a residual net by these kernels; made anew for each forward pass."""

    def __init__(self, net: nn.Module) -> None:
        convs = [module for module in net.modules() if isinstance(module, nn.Conv2d)]
        weights = [conv.weight for conv in convs]
        autocast = torch.is_autocast_enabled("cuda")
        self.dtype = torch.get_autocast_dtype("cuda") if autocast else weights[0].dtype
        self.beside = Beside()
        self.arrived = torch.zeros(cuda.GROUPS, dtype=torch.int32, device=weights[0].device)
        rounded = Rounded.apply(self.dtype, self.beside.join, *weights)
        self.weights = dict(zip(convs, rounded, strict=True))

    def norm(self, norm: nn.BatchNorm2d, flow: Flow) -> tuple[Tensor, Tensor]:
        branch, skip, _ = flow
        if branch.numel() > COUNTABLE:
            return super().norm(norm, flow)
        with torch.cuda.device_of(branch):  # kernels would be started on the current device
            x, h = NormAct.apply(branch, skip, norm.weight, norm.bias, norm)
        return branch if x is None else x, h

    def norm_conv(
        self, norm: nn.BatchNorm2d, conv: nn.Conv2d, flow: Flow, skip: Tensor | None = None
    ) -> tuple[Tensor, Flow]:
        if not conv3.fits(flow.branch, conv):
            return super().norm_conv(norm, conv, flow, skip)
        if flow.statistics is None:
            x, h = self.norm(norm, flow)
        else:
            x = h = flow.branch
        with torch.cuda.device_of(h):
            whole, y, statistics = NormConvolve.apply(
                h, flow.statistics, norm.weight, norm.bias, self.weights[conv], skip, norm,
                self.arrived, self.beside,
            )  # fmt: skip
        return whole if x is h else x, Flow(y, None, statistics)

    def conv(self, conv: nn.Conv2d, x: Tensor) -> Tensor:
        weight = self.weights[conv]
        beside: Beside | None = self.beside
        if conv.bias is not None:  # the first layer; its gradient is cut to size before it is kept
            x, weight = widened(x.to(self.dtype), weight, conv.bias)
            beside = None
        with torch.cuda.device_of(x):
            y: Tensor = Convolve.apply(x, weight, conv.stride[0], conv.padding[0], beside)
        return y


def widened(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """The same 3 x 3 convolution of images with as many channels as the tensor cores want.

    The first new channel is 1 everywhere, and the centre of its weight is the bias.
    """
    channels = x.shape[1]
    more = (0, 0, 0, 0, 0, LEAST - channels)
    x, weight = nn.functional.pad(x, more), nn.functional.pad(weight, more)
    x[:, channels] = 1
    weight[:, channels, 1, 1] = bias.to(weight.dtype)
    return as_rows(x), as_rows(weight)
