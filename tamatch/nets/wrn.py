"""Wide residual nets: the reference one with its quirks, and a clean variant."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import dist
from ..errors import UsageError
from ..machine.gpu import own_kernels
from ..types import Out
from .base import BatchNorm2d, Net, Recomputing

STAGES = 3
DEEPEST, WIDEST = 1000, 64  # beyond these there is a mistake
SLOPE = 0.1  # of the activation below zero


@dataclass(frozen=True)
class Variant:
    """How normalisation is done; the fields are where the two variants differ."""

    momentum: float  # weight of the new batch in BatchNorm's running statistics
    final_eps: float  # eps of the last BatchNorm; all others have 1e-5
    raw_widening: bool  # in stages 2 and 3 the widening block skips its first normalisation


REFERENCE = Variant(momentum=0.001, final_eps=1e-3, raw_widening=True)
CLEAN = Variant(momentum=0.1, final_eps=1e-5, raw_widening=False)


def build(name: str, classes: int, size: int) -> WideResNet:
    """Build `wrn_DEPTH_WIDTH` or `wrn_DEPTH_WIDTH_clean`."""
    _, *sizes = name.removesuffix("_clean").split("_")
    depth, width = map(int, sizes)
    if not 10 <= depth <= DEEPEST or (depth - 4) % 6 or not 1 <= width <= WIDEST:
        raise UsageError(
            f"{name} does not exist: the depth of a wide residual net is 10, 16, 22, 28, … up to "
            f"{DEEPEST} (three stages of equal length), its width 1 to {WIDEST}."
        )
    variant = CLEAN if name.endswith("_clean") else REFERENCE
    return WideResNet(depth, width, classes=classes, size=size, variant=variant)


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


class Parts:
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


class ResidualBlock(Recomputing):
    """Pre-activation residual block: conv2(act(bn2(conv1(h)))) + shortcut, h = act(bn1(x)).

    A block that changes the width projects h in its shortcut; with `raw` it takes h = x and `bn1`
    is there only because the reference has it, neither computed nor trained. The sum is left to
    the next layer, which may take it together with its normalisation.
    """

    def __init__(self, inner: int, outer: int, stride: int, *, raw: bool, momentum: float) -> None:
        super().__init__()
        self.raw = raw
        self.bn1 = BatchNorm2d(inner, momentum=momentum)
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, padding=1, bias=False)
        self.bn2 = BatchNorm2d(outer, momentum=momentum)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(inner, outer, 1, stride, bias=False) if inner != outer else None

    def forward(self, flow: Flow, do: Parts) -> Flow:
        """Map (N, inner, H, W) to (N, outer, H/stride, W/stride)."""
        return self.keep_or_recompute(self._compute, flow, do)

    def _compute(self, flow: Flow, do: Parts) -> Flow:
        if self.shortcut is None:
            skip, inner = do.norm_conv(self.bn1, self.conv1, flow)
        else:
            h = total(flow) if self.raw else do.norm(self.bn1, flow)[1]
            skip, inner = do.conv(self.shortcut, h), Flow(do.conv(self.conv1, h))
        return do.norm_conv(self.bn2, self.conv2, inner, skip)[1]


class WideResNet(Net):
    """WRN-depth-width with widths 16, 16k, 32k, 64k."""

    def __init__(
        self, depth: int, width: int, *, classes: int, size: int, variant: Variant
    ) -> None:
        channels = (16, 16 * width, 32 * width, 64 * width)
        side = math.ceil(math.ceil(size / 2) / 2)
        super().__init__(classes=classes, width=channels[-1], map_width=channels[-1] * side * side)
        self.blocks_per_stage = (depth - 4) // 6
        self.parts: Callable[[nn.Module], Parts] = Parts
        self.stem = nn.Conv2d(3, channels[0], 3, padding=1)
        self.stages = nn.Sequential(
            *(self._stage(stage, channels, variant) for stage in range(STAGES))
        )
        self.norm = BatchNorm2d(channels[-1], eps=variant.final_eps, momentum=variant.momentum)
        self.head = nn.Linear(self.width, classes)
        self._initialise()

    def forward(self, images: Tensor) -> Out:
        """Classify (N, 3, H, W) images."""
        do = self.parts(self) if self.training else Parts(self)
        flow = Flow(do.conv(self.stem, images))
        for block in (m for m in self.modules() if isinstance(m, ResidualBlock)):
            flow = block(flow, do)
        _, last = do.norm(self.norm, flow)
        return self.finish(do.pool(last, self.head.weight.dtype), last)

    def accelerate(self, *, compiling: bool = True, kernels: bool = True) -> None:
        """Train by hand-written kernels where they fit, else compile."""
        widths = {m.num_features for m in self.modules() if isinstance(m, nn.BatchNorm2d)}
        fit = dist.alone() and not any(width & (width - 1) for width in widths)
        if not (fit and own_kernels(kernels)):
            # they want powers of two, and know of one process alone
            super().accelerate(compiling=compiling)
            return
        from .kernels import Fused, prepare

        self.parts, self.has_cuda_code, self.rehearsable = Fused, True, True
        prepare(self.stem.weight.device)

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """Stem 0, then one layer per block; the last norm goes with the last block."""
        blocks = STAGES * self.blocks_per_stage
        part, *rest = parameter.split(".")
        layer = {"stem": 0, "norm": blocks}.get(part, blocks + 1)
        if part == "stages":
            layer = 1 + int(rest[0]) * self.blocks_per_stage + int(rest[1])
        return layer, blocks + 1

    def _stage(self, stage: int, channels: tuple[int, ...], variant: Variant) -> nn.Sequential:
        inner, outer = channels[stage], channels[stage + 1]
        first = ResidualBlock(
            inner,
            outer,
            stride=1 if stage == 0 else 2,
            raw=variant.raw_widening and stage > 0,
            momentum=variant.momentum,
        )
        others = (
            ResidualBlock(outer, outer, stride=1, raw=False, momentum=variant.momentum)
            for _ in range(self.blocks_per_stage - 1)
        )
        return nn.Sequential(first, *others)

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.xavier_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)
