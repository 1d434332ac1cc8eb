"""The parts that residual nets are made of, as torch's own modules compute them."""

from __future__ import annotations

from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

Flow = tuple[Tensor, Tensor | None]  # the two summands of a residual sum not yet taken


def activate(x: Tensor) -> Tensor:
    """The activation used throughout."""
    return F.leaky_relu(x, 0.1)


def total(flow: Flow) -> Tensor:
    """The residual sum."""
    branch, skip = flow
    return branch if skip is None else branch + skip


class Plain:
    """How one forward pass of a net computes its parts; `kernels.Fused` is the other way."""

    def __init__(self, net: nn.Module) -> None:
        pass

    def norm(self, norm: nn.BatchNorm2d, flow: Flow) -> tuple[Tensor, Tensor]:
        """The sum x of the flow, and act(norm(x))."""
        x = total(flow)
        return x, activate(norm(x))

    def conv(self, conv: nn.Conv2d, x: Tensor) -> Tensor:
        return cast(Tensor, conv(x))
