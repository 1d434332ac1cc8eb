"""The parts that residual nets are made of, as torch's own modules compute them."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLOPE = 0.1  # of the activation below zero


class Flow(NamedTuple):
    """What goes from block to block."""

    branch: Tensor
    skip: Tensor | None = None  # the other summand of a residual sum that is not yet taken
    statistics: Tensor | None = None  # of the branch, where the kernel that made it knows them


def activate(x: Tensor) -> Tensor:
    """The activation used throughout."""
    return F.leaky_relu(x, SLOPE)


def total(flow: Flow) -> Tensor:
    """The residual sum."""
    branch, skip, _ = flow
    return branch if skip is None else branch + skip


class Plain:
    """How one forward pass of a net computes its parts; `kernels.Fused` is the other way."""

    def __init__(self, net: nn.Module) -> None:
        pass

    def norm(self, norm: nn.BatchNorm2d, flow: Flow) -> tuple[Tensor, Tensor]:
        """The sum x of the flow, and act(norm(x))."""
        x = total(flow)
        return x, activate(norm(x))

    def norm_conv(
        self, norm: nn.BatchNorm2d, conv: nn.Conv2d, flow: Flow, skip: Tensor | None = None
    ) -> tuple[Tensor, Flow]:
        """The sum x of the flow, and conv(act(norm(x))) with a summand for later."""
        x, h = self.norm(norm, flow)
        return x, Flow(self.conv(conv, h), skip)

    def conv(self, conv: nn.Conv2d, x: Tensor) -> Tensor:
        return cast(Tensor, conv(x))

    def pool(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """The mean of each channel."""
        return x.mean((2, 3), dtype=dtype)
