"""The sum of two maps, its BatchNorm and the activation, as two kernels forward and two back.

Results equal the plain modules up to rounding, and every sum has a fixed order. Feature maps are
channels-last: rows of pixels, one column a channel.

Rows are masked. Columns need no mask: the grid has COLUMNS / SLICE programs along them, which is
whole as both are powers of two (`WideResNet.accelerate`). Maps have a first row (`Fused.norm`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd import Function

from ..wrn import SLOPE

SLICE = 32  # channels a program works on: the fewer, the fewer sums each program adds up again
ELEMENTS = 16384  # of a map that a program works on at once
WARPS = 16
PROGRAMS = 1  # for each multiprocessor
COUNTABLE = 2**31 - 1  # elements of a map: places in it are numbers of 32 bits


@triton.jit
def _sum_statistics(
    branch, skip, total, partial, rows,
    COLUMNS: tl.constexpr, SLICE: tl.constexpr, BLOCK: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """total = branch + skip; sums of its columns and their squares, one row of each a program.

    Values are taken relative to the first row, so that the squares do not cancel.
    """
    column = tl.program_id(1) * SLICE + tl.arange(0, SLICE)
    row = tl.arange(0, BLOCK)
    origin = tl.load(branch + column).to(tl.float32)
    if ADD:
        origin += tl.load(skip + column).to(tl.float32)
        origin = origin.to(total.dtype.element_ty).to(tl.float32)
    sums = tl.zeros((BLOCK, SLICE), tl.float32)
    squares = tl.zeros((BLOCK, SLICE), tl.float32)
    for start in range(tl.program_id(0) * BLOCK, rows, tl.num_programs(0) * BLOCK):
        at = (start + row)[:, None] * COLUMNS + column[None, :]
        inside = (start + row < rows)[:, None]
        x = tl.load(branch + at, inside, 0).to(tl.float32)
        if ADD:
            x += tl.load(skip + at, inside, 0).to(tl.float32)
            rounded = x.to(total.dtype.element_ty)
            tl.store(total + at, rounded, inside)
            x = rounded.to(tl.float32)
        x = tl.where(inside, x - origin[None, :], 0)
        sums += x
        squares += x * x
    out = partial + tl.program_id(0) * 2 * COLUMNS + column
    tl.store(out, tl.sum(sums, 0))
    tl.store(out + COLUMNS, tl.sum(squares, 0))


@triton.jit
def _both_sums(
    partial, programs, COLUMNS: tl.constexpr, SLICE: tl.constexpr, PROGRAMS: tl.constexpr
):
    """The two sums of each column over all programs of the kernel before."""
    column = tl.program_id(1) * SLICE + tl.arange(0, SLICE)
    program = tl.arange(0, PROGRAMS)
    at = partial + program[:, None] * 2 * COLUMNS + column[None, :]
    there = (program < programs)[:, None]
    return tl.sum(tl.load(at, there, 0), 0), tl.sum(tl.load(at + COLUMNS, there, 0), 0)


@triton.jit
def _normalise(
    x, out, partial, programs, weight, bias, moments, running_mean, running_var, batches,
    rows, momentum, eps,
    COLUMNS: tl.constexpr, SLICE: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
    SLOPE: tl.constexpr, TRACKED: tl.constexpr,
):  # fmt: skip
    """out = activation(BatchNorm(x)); the first program also moves the running statistics."""
    column = tl.program_id(1) * SLICE + tl.arange(0, SLICE)
    row = tl.arange(0, BLOCK)
    sums, squares = _both_sums(partial, programs, COLUMNS, SLICE, PROGRAMS)
    shift = sums / rows
    mean = tl.load(x + column).to(tl.float32) + shift
    variance = tl.maximum(squares / rows - shift * shift, 0)  # if the first row is far off
    rstd = 1 / tl.sqrt(variance + eps)
    if tl.program_id(0) == 0:
        tl.store(moments + column, mean)
        tl.store(moments + COLUMNS + column, rstd)
        if TRACKED:
            old = tl.load(running_mean + column)
            tl.store(running_mean + column, old + momentum * (mean - old))
            old = tl.load(running_var + column)
            unbiased = variance * (rows / (rows - 1))
            tl.store(running_var + column, old + momentum * (unbiased - old))
            if tl.program_id(1) == 0:
                tl.store(batches, tl.load(batches) + 1)
    scale = rstd * tl.load(weight + column)
    offset = tl.load(bias + column) - mean * scale
    for start in range(tl.program_id(0) * BLOCK, rows, tl.num_programs(0) * BLOCK):
        at = (start + row)[:, None] * COLUMNS + column[None, :]
        inside = (start + row < rows)[:, None]
        z = tl.load(x + at, inside, 0).to(tl.float32) * scale[None, :] + offset[None, :]
        tl.store(out + at, tl.where(z > 0, z, SLOPE * z).to(out.dtype.element_ty), inside)


@triton.jit
def _sum_gradients(
    x, grad, partial, weight, bias, moments, rows,
    COLUMNS: tl.constexpr, SLICE: tl.constexpr, BLOCK: tl.constexpr, SLOPE: tl.constexpr,
):  # fmt: skip
    """Sums over each column of g, the gradient behind the activation, and of g times x̂."""
    column = tl.program_id(1) * SLICE + tl.arange(0, SLICE)
    row = tl.arange(0, BLOCK)
    mean, rstd = tl.load(moments + column), tl.load(moments + COLUMNS + column)
    w, b = tl.load(weight + column), tl.load(bias + column)
    sums = tl.zeros((BLOCK, SLICE), tl.float32)
    products = tl.zeros((BLOCK, SLICE), tl.float32)
    for start in range(tl.program_id(0) * BLOCK, rows, tl.num_programs(0) * BLOCK):
        at = (start + row)[:, None] * COLUMNS + column[None, :]
        inside = (start + row < rows)[:, None]
        standard = (tl.load(x + at, inside, 0).to(tl.float32) - mean[None, :]) * rstd[None, :]
        g = tl.load(grad + at, inside, 0).to(tl.float32)
        g = tl.where(standard * w[None, :] + b[None, :] > 0, g, SLOPE * g)
        sums += g
        products += g * standard
    out = partial + tl.program_id(0) * 2 * COLUMNS + column
    tl.store(out, tl.sum(sums, 0))
    tl.store(out + COLUMNS, tl.sum(products, 0))


@triton.jit
def _spread_gradients(
    x, grad, extra, out, partial, programs, weight, bias, moments, grad_weight, grad_bias, rows,
    COLUMNS: tl.constexpr, SLICE: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
    SLOPE: tl.constexpr, ADD: tl.constexpr,
):  # fmt: skip
    """out = the gradient in front of the BatchNorm, plus `extra`; `grad` is that of the result."""
    column = tl.program_id(1) * SLICE + tl.arange(0, SLICE)
    row = tl.arange(0, BLOCK)
    sums, products = _both_sums(partial, programs, COLUMNS, SLICE, PROGRAMS)
    if tl.program_id(0) == 0:
        tl.store(grad_bias + column, sums)
        tl.store(grad_weight + column, products)
    mean, rstd = tl.load(moments + column), tl.load(moments + COLUMNS + column)
    w, b = tl.load(weight + column), tl.load(bias + column)
    sums, products, scale = sums / rows, products / rows, w * rstd
    for start in range(tl.program_id(0) * BLOCK, rows, tl.num_programs(0) * BLOCK):
        at = (start + row)[:, None] * COLUMNS + column[None, :]
        inside = (start + row < rows)[:, None]
        standard = (tl.load(x + at, inside, 0).to(tl.float32) - mean[None, :]) * rstd[None, :]
        g = tl.load(grad + at, inside, 0).to(tl.float32)
        g = tl.where(standard * w[None, :] + b[None, :] > 0, g, SLOPE * g)
        g = scale[None, :] * (g - sums[None, :] - standard * products[None, :])
        if ADD:
            g += tl.load(extra + at, inside, 0).to(tl.float32)
        tl.store(out + at, g.to(out.dtype.element_ty), inside)


class Launch(NamedTuple):
    """How a map is spread over the device."""

    rows: int
    programs: int  # that share the rows of one slice of channels
    sizes: dict[str, int]  # what the kernels are compiled for

    @classmethod
    def of(cls, x: Tensor) -> Launch:
        columns, width = x.shape[1], min(x.shape[1], SLICE)
        rows, block = x.numel() // columns, ELEMENTS // width
        programs = max(1, PROGRAMS * processors(x.device) * width // columns)
        sizes = {"COLUMNS": columns, "SLICE": width, "BLOCK": block, "num_warps": WARPS}
        return cls(rows, min(triton.cdiv(rows, block), programs), sizes)

    @property
    def grid(self) -> tuple[int, int]:
        return self.programs, self.sizes["COLUMNS"] // self.sizes["SLICE"]


@cache
def processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 2  # the interpreter
    return torch.cuda.get_device_properties(device).multi_processor_count


class NormAct(Function):
    """(branch, skip) to total = branch + skip and activation(BatchNorm(total))."""

    @staticmethod
    def forward(
        ctx: Any,
        branch: Tensor,
        skip: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        norm: nn.BatchNorm2d,
    ) -> tuple[Tensor | None, Tensor]:
        launch = Launch.of(branch)
        partial = branch.new_empty(launch.programs, 2, branch.shape[1], dtype=torch.float32)
        total = branch if skip is None else torch.empty_like(branch)
        _sum_statistics[launch.grid](
            branch, skip, total, partial, launch.rows, ADD=skip is not None, **launch.sizes
        )
        out = torch.empty_like(branch)
        moments = partial.new_empty(2, branch.shape[1])
        _normalise[launch.grid](
            total, out, partial, launch.programs, weight, bias, moments,
            norm.running_mean, norm.running_var, norm.num_batches_tracked,
            launch.rows, norm.momentum, norm.eps, SLOPE=SLOPE, TRACKED=norm.track_running_stats,
            PROGRAMS=triton.next_power_of_2(launch.programs), **launch.sizes,
        )  # fmt: skip
        ctx.save_for_backward(total, weight, bias, moments)
        ctx.set_materialize_grads(False)
        return (None if skip is None else total), out

    @staticmethod
    def backward(ctx: Any, grad_total: Tensor | None, grad: Tensor) -> tuple[Tensor | None, ...]:
        total, weight, bias, moments = ctx.saved_tensors
        launch = Launch.of(total)
        grad = as_rows(grad)
        partial = moments.new_empty(launch.programs, 2, total.shape[1])
        _sum_gradients[launch.grid](
            total, grad, partial, weight, bias, moments, launch.rows, SLOPE=SLOPE, **launch.sizes
        )
        out, grad_weight, grad_bias = (torch.empty_like(t) for t in (total, weight, bias))
        _spread_gradients[launch.grid](
            total, grad, None if grad_total is None else as_rows(grad_total), out, partial,
            launch.programs, weight, bias, moments, grad_weight, grad_bias, launch.rows,
            SLOPE=SLOPE, ADD=grad_total is not None,
            PROGRAMS=triton.next_power_of_2(launch.programs), **launch.sizes,
        )  # fmt: skip
        return out, (out if ctx.needs_input_grad[1] else None), grad_weight, grad_bias, None


def as_rows(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)
