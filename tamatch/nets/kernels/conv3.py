"""3 x 3 convolutions in one kernel with the BatchNorm in front of them and the sums behind them.

The kernels are CUDA C++, compiled when first used; `conv3.cu` says what they do.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from . import conv
from .beside import Beside
from .norm import COUNTABLE, SLOPE, as_rows, processors, spread_gradients

SOURCES = [Path(__file__).with_name(name) for name in ("primitives.cuh", "conv3.cu")]
THREADS = 128, 96  # of a block: for maps, and for a weight's gradient
SHARES = 3  # of a weight's gradient, for each multiprocessor
GROUPS = 32  # rows, at most, of a map's statistics
ROWS, COLUMNS = 8, {32: 32, 64: 16}  # pixels of a tile, by channels
SUMMED = 32  # channels of a weight whose gradient fits in a block's registers
AMPERE = (8, 0)  # the first with tensor cores for bfloat16


def fits(conv: nn.Conv2d, x: Tensor) -> bool:
    """Whether these kernels do this convolution of this map."""
    channels, height, width = x.shape[1:]
    return (
        conv.kernel_size == (3, 3)
        and conv.stride == (1, 1)
        and conv.in_channels == conv.out_channels == channels
        and channels in COLUMNS
        and height % ROWS == width % COLUMNS[channels] == 0
        and x.dtype == torch.bfloat16
        and x.numel() <= COUNTABLE
        and hasattr(torch.cuda, "_compile_kernel")
        and torch.cuda.get_device_capability(x.device) >= AMPERE
    )


@cache
def compiled(name: str, device: torch.device, slope: float) -> Any:
    source = "".join(path.read_text() for path in SOURCES)
    options = ["-std=c++17", f"-DGROUPS={GROUPS}", f"-DSLOPE={slope}f"]
    with torch.cuda.device(device):
        return torch.cuda._compile_kernel(source, name, nvcc_options=options)


class Tiles:
    """A map in tiles, a block of threads each, and the memory for sums over its channels."""

    def __init__(self, x: Tensor) -> None:
        self.channels, *self.sides = x.shape[1:]
        self.count, self.device = tiles_of(x), x.device
        size = -(-self.count // GROUPS)
        self.sums = x.new_empty(self.count, 2, self.channels, dtype=torch.float32)
        self.totals = self.sums.new_empty(-(-self.count // size), 2, self.channels)

    def run(self, kernel: str, *flags: bool, arguments: list[Any]) -> None:
        traits = ", ".join([str(self.channels), *(str(flag).lower() for flag in flags)])
        start = compiled(f"{kernel}<{traits}>", self.device, SLOPE)
        start(grid=(self.count, 1, 1), block=(THREADS[0], 1, 1), args=arguments)


def tiles_of(x: Tensor) -> int:
    count, channels, height, width = x.shape
    return count * (height // ROWS) * (width // COLUMNS[channels])


def weight_gradient(h: Tensor, grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient of the weight, given that of the result."""
    channels, tiles = len(weight), tiles_of(h)
    if channels != SUMMED:
        return conv.weight_gradient(h, grad, weight, 1, 1)
    shares = min(tiles, SHARES * processors(h.device))
    sums = h.new_empty(shares, channels, 3, 3, channels, dtype=torch.float32)
    start = compiled(f"weight_gradient<{channels}>", h.device, SLOPE)
    arguments = [h, grad, sums, tiles, *h.shape[2:]]
    start(grid=(shares, 1, 1), block=(THREADS[1], 1, 1), args=arguments)
    return sums.sum(0).permute(0, 3, 1, 2).to(weight.dtype)


class NormConvolve(Function):
    """x to x, y = convolve(h) + skip and the statistics of y, where h = activation(BatchNorm(x)).

    `statistics` are those of x, from the call that made it. Without them h is x. `arrived` is a row
    of zeros that is such a row again afterwards.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        statistics: Tensor | None,
        gamma: Tensor,
        beta: Tensor,
        weight: Tensor,
        skip: Tensor | None,
        norm: nn.BatchNorm2d,
        arrived: Tensor,
        beside: Beside,
    ) -> tuple[Tensor, Tensor, Tensor]:
        tiles, y = Tiles(x), torch.empty_like(x)
        normed, added = statistics is not None, skip is not None
        h = torch.empty_like(x) if normed else x
        moments = tiles.sums.new_empty(2, tiles.channels)
        tiles.run(
            "forward", normed, added,
            arguments=[
                x, weight, x if skip is None else as_rows(skip), h, y,
                tiles.sums, arrived, tiles.totals,
                moments if statistics is None else statistics, gamma, beta, moments,
                norm.running_mean, norm.running_var, norm.num_batches_tracked,
                *tiles.sides, norm.momentum or 0.0, norm.eps,
            ],
        )  # fmt: skip
        ctx.save_for_backward(x, h, weight, gamma, beta, moments)
        ctx.normed, ctx.added, ctx.arrived, ctx.beside = normed, added, arrived, beside
        ctx.mark_non_differentiable(tiles.totals)
        ctx.set_materialize_grads(False)
        return x, y, tiles.totals

    @staticmethod
    def backward(
        ctx: Any, grad_x: Tensor | None, grad: Tensor, _: None
    ) -> tuple[Tensor | None, ...]:
        x, h, weight, gamma, beta, moments = ctx.saved_tensors
        grad, grad_weight = as_rows(grad), None
        if ctx.needs_input_grad[4]:
            with ctx.beside.reading(h, grad):
                grad_weight = weight_gradient(h, grad, weight)
        tiles, g = Tiles(x), torch.empty_like(x)
        tiles.run(
            "backward", ctx.normed,
            arguments=[
                grad, weight, g, x, moments, gamma, beta, tiles.sums, ctx.arrived, tiles.totals,
                *tiles.sides,
            ],
        )  # fmt: skip
        grad_skip = grad if ctx.added else None
        if not ctx.normed:
            return g, None, None, None, grad_weight, grad_skip, None, None, None
        g, *grads = spread_gradients(x, g, grad_x, gamma, beta, moments, tiles.totals)
        return g, None, *grads, grad_weight, grad_skip, None, None, None
