"""Wide residual nets: the reference ones with their quirks, and a clean variant."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import dist
from ..errors import UsageError
from ..machine.gpu import own_kernels
from ..types import Out
from .base import BatchNorm2d, Net, Recomputing

DEEPEST, WIDEST = 1000, 64  # beyond these there is a mistake
SLOPE = 0.1  # of the activation below zero


@dataclass(frozen=True)
class Variant:
    """Stages and normalisation; the fields are where the variants differ."""

    strides: tuple[int, ...]  # of the stages
    momentum: float  # weight of the new batch in BatchNorm's running statistics
    eps: float  # of BatchNorm
    final_eps: float  # of the last one
    raw_widening: bool  # from stage 2 on, the widening block skips its first normalisation
    bias: bool  # whether convolutions have one; the stem always has


THREE, FOUR = (1, 2, 2), (2, 2, 2, 2)
REFERENCE = Variant(THREE, 0.001, eps=1e-5, final_eps=1e-3, raw_widening=True, bias=False)
REFERENCE_FOUR = Variant(FOUR, 0.001, eps=1e-3, final_eps=1e-3, raw_widening=False, bias=True)
CLEAN = Variant(THREE, 0.1, eps=1e-5, final_eps=1e-5, raw_widening=False, bias=False)


def build(name: str, classes: int, size: int) -> "WideResNet":
    """Build `wrn_DEPTH_WIDTH` or `wrn_DEPTH_WIDTH_clean`.

    Depth counts layers: a stem, in each stage two a block and one shortcut. So an even one has
    three stages, 6n + 4, and an odd one four, 8n + 5, as the benchmark's net for STL-10.
    """
    _, *sizes = name.removesuffix("_clean").split("_")
    depth, width = map(int, sizes)
    stages = len(FOUR if depth % 2 else THREE)
    blocks, left = divmod(depth - 1 - stages, 2 * stages)
    if not (blocks >= 1 and depth <= DEEPEST and 1 <= width <= WIDEST) or left:
        raise UsageError(
            f"{name} does not exist: the depth of a wide residual net is 10, 16, 22, 28, … (three "
            f"stages) or 13, 21, 29, 37, … (four), up to {DEEPEST}; its width 1 to {WIDEST}."
        )
    variant = REFERENCE if stages == len(THREE) else REFERENCE_FOUR
    if name.endswith("_clean"):
        variant = replace(CLEAN, strides=variant.strides)
    return WideResNet(blocks, width, classes=classes, size=size, variant=variant)


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

    def __init__(
        self, inner: int, outer: int, stride: int, variant: Variant, *, raw: bool = False
    ) -> None:
        super().__init__()
        self.raw = raw
        norm = partial(BatchNorm2d, eps=variant.eps, momentum=variant.momentum)
        conv = partial(nn.Conv2d, bias=variant.bias)
        self.bn1 = norm(inner)
        self.conv1 = conv(inner, outer, 3, stride, padding=1)
        self.bn2 = norm(outer)
        self.conv2 = conv(outer, outer, 3, padding=1)
        projects = inner != outer or stride > 1
        self.shortcut = conv(inner, outer, 1, stride) if projects else None

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
    """WRN-depth-width with widths 16, 16k, 32k, 64k, and 128k where there are four stages."""

    def __init__(
        self, blocks: int, width: int, *, classes: int, size: int, variant: Variant
    ) -> None:
        channels = [16, *(16 * width * 2**stage for stage in range(len(variant.strides)))]
        for stride in variant.strides:
            size = -(-size // stride)
        super().__init__(classes=classes, width=channels[-1], map_width=channels[-1] * size * size)
        self.blocks_per_stage = blocks
        self.parts: Callable[[nn.Module], Parts] = Parts
        self.stem = nn.Conv2d(3, channels[0], 3, padding=1)
        self.stages = nn.Sequential(
            *(self._stage(blocks, stage, channels, variant) for stage in range(len(channels) - 1))
        )
        self.norm = BatchNorm2d(channels[-1], eps=variant.final_eps, momentum=variant.momentum)
        self.head = nn.Linear(self.width, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.xavier_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

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
        convs = [m for m in self.stages.modules() if isinstance(m, nn.Conv2d)]
        fit &= all(conv.bias is None for conv in convs)
        if not (fit and own_kernels(kernels)):
            # they want powers of two and no bias, and know of one process alone
            super().accelerate(compiling=compiling)
            return
        from .kernels import Fused, prepare

        self.parts, self.has_cuda_code, self.rehearsable = Fused, True, True
        prepare(self.stem.weight.device)

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """Stem 0, then one layer per block; the last norm goes with the last block."""
        blocks = len(self.stages) * self.blocks_per_stage
        part, *rest = parameter.split(".")
        layer = {"stem": 0, "norm": blocks}.get(part, blocks + 1)
        if part == "stages":
            layer = 1 + int(rest[0]) * self.blocks_per_stage + int(rest[1])
        return layer, blocks + 1

    def _stage(
        self, blocks: int, stage: int, channels: list[int], variant: Variant
    ) -> nn.Sequential:
        (inner, outer), stride = channels[stage : stage + 2], variant.strides[stage]
        raw = variant.raw_widening and stage > 0
        first = ResidualBlock(inner, outer, stride, variant, raw=raw)
        others = (ResidualBlock(outer, outer, 1, variant) for _ in range(blocks - 1))
        return nn.Sequential(first, *others)
