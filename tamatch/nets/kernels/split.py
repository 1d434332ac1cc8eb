"""3 x 3 convolutions in single precision by tensor cores, which round what they read to TF32.

Each factor is split into two numbers that they do not round, and three of the four products are
added: what is left out is below the rounding of single precision. That is for nets and passes that
must not be rounded; where TF32 will do, cuDNN's kernels are faster.

Positions and their neighbours are masked. Weights need no mask: OUTER and INNER are their sizes
and powers of two (`fits`), of which SLICE divides the latter.
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from .narrow import programs
from .norm import COUNTABLE

WIDTHS = 16, 32, 64, 128  # channels
QUICK = (8, 0), (9, 0), (10, 0)  # GPUs whose TF32 is several times as fast as single precision
BLOCK, SLICE = 128, 32  # positions of a program at a time, and channels that it sums over at once


def fits(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether this convolution is done here."""
    outer, inner, *side = weight.shape
    return (
        x.dtype == torch.float32
        and not torch.backends.cudnn.allow_tf32
        and {outer, inner} <= {*WIDTHS}
        and stride == 1
        and side == [3, 3]
        and x.numel() // inner * max(inner, outer) <= COUNTABLE
        and pays(x.device)
    )


@cache
def pays(device: torch.device) -> bool:
    return device.type != "cuda" or torch.cuda.get_device_capability(device) in QUICK


@triton.jit
def _convolve(
    x, weight, y, positions, height, width,
    INNER: tl.constexpr, OUTER: tl.constexpr, BLOCK: tl.constexpr, SLICE: tl.constexpr,
):  # fmt: skip
    out = tl.arange(0, OUTER)
    for start in range(tl.program_id(0) * BLOCK, positions, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        h, w, inside = at // width % height, at % width, at < positions
        total = tl.zeros((BLOCK, OUTER), tl.float32)
        for part in tl.range(9 * (INNER // SLICE)):
            tap, first = part // (INNER // SLICE), part % (INNER // SLICE) * SLICE
            dy, dx = tap // 3 - 1, tap % 3 - 1
            there = inside & (h + dy >= 0) & (h + dy < height) & (w + dx >= 0) & (w + dx < width)
            inner = first + tl.arange(0, SLICE)
            pixel = (at + dy * width + dx)[:, None] * INNER + inner[None, :]
            taps = weight + out[None, :] * 9 * INNER + tap * INNER + inner[:, None]
            a, b = tl.load(x + pixel, there[:, None], 0.0), tl.load(taps)
            total = tl.dot(a, b, total, input_precision="tf32x3")
        to = y + at[:, None] * OUTER + out[None, :]
        tl.store(to, total, inside[:, None])


def convolve(x: Tensor, weight: Tensor) -> Tensor:
    """The convolution with a border of zeros; map and weight channels-last."""
    count, inner, height, width = x.shape
    y = x.new_empty(count, height, width, len(weight)).permute(0, 3, 1, 2)
    _convolve[programs(x, BLOCK)](
        x, weight, y, count * height * width, height, width,
        INNER=inner, OUTER=len(weight), BLOCK=BLOCK, SLICE=min(inner, SLICE), num_warps=8,
        num_stages=3,
    )  # fmt: skip
    return y
