"""3 x 3 convolutions in one kernel with the BatchNorm in front of them and the sums behind them.

`conv3.cu` says what the kernels do.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from . import cuda
from .beside import Beside
from .norm import as_rows, spread_gradients
from .weights import weight_gradient

THREADS = 128


def fits(x: Tensor, conv: nn.Conv2d) -> bool:
    """Whether this convolution of this map is done here."""
    return cuda.fits(x, conv.weight, conv.stride[0])


class Tiles:
    """A map in tiles, a block of threads each, and the memory for sums over its channels."""

    def __init__(self, x: Tensor) -> None:
        self.channels, *self.sides = x.shape[1:]
        self.count, self.device = cuda.tiles_of(x), x.device
        size = -(-self.count // cuda.GROUPS)
        self.sums = x.new_empty(self.count, 2, self.channels, dtype=torch.float32)
        self.totals = self.sums.new_empty(-(-self.count // size), 2, self.channels)

    def start(self, kernel: str, *flags: bool, arguments: list[Any]) -> None:
        traits = ", ".join([str(self.channels), *(str(flag).lower() for flag in flags)])
        name = f"{kernel}<{traits}>"
        cuda.start(name, self.device, self.count, THREADS, *arguments, *self.sides)


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
        tiles.start(
            "forward", normed, added,
            arguments=[
                x, weight, x if skip is None else as_rows(skip), h, y,
                tiles.sums, arrived, tiles.totals,
                moments if statistics is None else statistics, gamma, beta, moments,
                norm.running_mean, norm.running_var, norm.num_batches_tracked,
                norm.momentum or 0.0, norm.eps,
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
                grad_weight = weight_gradient(h, grad, weight, 1, 1)
        tiles, g = Tiles(x), torch.empty_like(x)
        tiles.start(
            "backward", ctx.normed,
            arguments=[
                grad, weight, g, x, moments, gamma, beta, tiles.sums, ctx.arrived, tiles.totals,
            ],
        )  # fmt: skip
        grad_skip = grad if ctx.added else None
        if not ctx.normed:
            return g, None, None, None, grad_weight, grad_skip, None, None, None
        g, *grads = spread_gradients(x, g, grad_x, gamma, beta, moments, tiles.totals)
        return g, None, *grads, grad_weight, grad_skip, None, None, None
