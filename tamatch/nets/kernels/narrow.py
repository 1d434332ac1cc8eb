"""3 x 3 convolutions of few channels, where cuDNN's kernels leave most of a GPU idle.

Three neighbouring pixels of a channels-last map are one piece of memory. A program reads them as
one row of a matrix product, four of them as its sizes are powers of two, and masks the fourth.

Positions and their neighbours are masked. Weights need no mask: OUTER and INNER are their sizes
and powers of two (`fits`), and each of the 9 taps is read whole.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .norm import COUNTABLE, processors

LEAST, MOST = 16, 32  # channels, in and out: the tensor cores' least, and where cuDNN catches up


def fits(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether these kernels do this convolution."""
    outer, inner, *side = weight.shape
    half = weight.element_size() == 2  # others the tensor cores would round
    countable = x.numel() // inner * max(inner, outer) <= COUNTABLE
    channels = {outer, inner} <= {LEAST, MOST}
    return half and countable and channels and stride == 1 and side == [3, 3]


@triton.jit
def _neighbours(x, at, h, w, inside, height, width, ROW: tl.constexpr, INNER: tl.constexpr):
    """Three pixels of the line above, at or below each position, (positions, 4 * INNER)."""
    column = tl.arange(0, 4 * INNER)
    which = (column // INNER)[None, :]
    line = (inside & (h + ROW >= 0) & (h + ROW < height))[:, None]
    there = ((which == 0) & (w > 0)[:, None]) | (which == 1)
    there |= (which == 2) & (w < width - 1)[:, None]
    return tl.load(x + (at + ROW * width - 1)[:, None] * INNER + column[None, :], line & there, 0.0)


@triton.jit
def _weight_gradient(
    x, grad, partial, positions, height, width,
    INNER: tl.constexpr, OUTER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each program sums over its positions, to be added up; as (OUTER, 3, 3, INNER)."""
    out, column = tl.arange(0, OUTER), tl.arange(0, 4 * INNER)
    above = tl.zeros((4 * INNER, OUTER), tl.float32)
    here = tl.zeros((4 * INNER, OUTER), tl.float32)
    below = tl.zeros((4 * INNER, OUTER), tl.float32)
    for start in range(tl.program_id(0) * BLOCK, positions, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        h, w, inside = at // width % height, at % width, at < positions
        g = tl.load(grad + at[:, None] * OUTER + out[None, :], inside[:, None], 0.0)
        row = _neighbours(x, at, h, w, inside, height, width, -1, INNER)
        above = tl.dot(tl.trans(row), g, above)
        row = _neighbours(x, at, h, w, inside, height, width, 0, INNER)
        here = tl.dot(tl.trans(row), g, here)
        row = _neighbours(x, at, h, w, inside, height, width, 1, INNER)
        below = tl.dot(tl.trans(row), g, below)
    to = partial + (tl.program_id(0) * OUTER + out)[None, :] * 9 * INNER + column[:, None]
    used = (column < 3 * INNER)[:, None]
    tl.store(to, above, used)
    tl.store(to + 3 * INNER, here, used)
    tl.store(to + 6 * INNER, below, used)


@triton.jit
def _convolve(
    x, weight, y, positions, height, width,
    INNER: tl.constexpr, OUTER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    inner, out = tl.arange(0, INNER), tl.arange(0, OUTER)
    for start in range(tl.program_id(0) * BLOCK, positions, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        h, w, inside = at // width % height, at % width, at < positions
        total = tl.zeros((BLOCK, OUTER), tl.float32)
        for tap in tl.static_range(9):
            dy, dx = tap // 3 - 1, tap % 3 - 1
            there = inside & (h + dy >= 0) & (h + dy < height) & (w + dx >= 0) & (w + dx < width)
            pixel = (at + dy * width + dx)[:, None] * INNER + inner[None, :]
            taps = weight + out[None, :] * 9 * INNER + tap * INNER + inner[:, None]
            total = tl.dot(tl.load(x + pixel, there[:, None], 0.0), tl.load(taps), total)
        to = y + at[:, None] * OUTER + out[None, :]
        tl.store(to, total.to(y.dtype.element_ty), inside[:, None])


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """The convolution with a border of zeros; map and weight channels-last."""
    count, inner, height, width = x.shape
    y = x.new_empty(count, height, width, len(weight)).permute(0, 3, 1, 2)
    _convolve[programs(x, 128)](
        x, weight, y, count * height * width, height, width,
        INNER=inner, OUTER=len(weight), BLOCK=128, num_warps=8, num_stages=2,
    )  # fmt: skip
    return y


def weight_gradients(x: Tensor, grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient of the weight by shares of the map, (shares, O, 3, 3, I), given the result's."""
    count, inner, height, width = x.shape
    grid = programs(x, 64)
    partial = x.new_empty((*grid, len(weight), 3, 3, inner), dtype=torch.float32)
    _weight_gradient[grid](
        x, grad, partial, count * height * width, height, width,
        INNER=inner, OUTER=len(weight), BLOCK=64, num_warps=4, num_stages=2,
    )  # fmt: skip
    return partial


def programs(x: Tensor, block: int) -> tuple[int]:
    """Two for each multiprocessor, but no more than there are blocks of positions."""
    blocks = triton.cdiv(x.numel() // x.shape[1], block)
    return (min(2 * processors(x.device), blocks),)
