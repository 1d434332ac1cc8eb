"""3 x 3 convolutions in one kernel with the BatchNorm in front of them and the sums behind them.

`conv3.cu` says what the kernels do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

from ...machine.branches import Beside
from . import cuda
from .conv import weight_gradient
from .norm import as_rows

THREADS = 128


class Tiles:
    """A map in tiles, a block of threads each, and the memory for sums over its channels."""

    def __init__(self, x: Tensor) -> None:
        self.channels, *self.sides = x.shape[1:]
        self.count, self.device = cuda.tiles_of(x), x.device
        size = -(-self.count // cuda.GROUPS)
        self.sums = x.new_empty(self.count, 2, self.channels, dtype=torch.float32)
        self.totals = self.sums.new_empty(-(-self.count // size), 2, self.channels)

    def start(self, kernel: str, *flags: bool, arguments: list[Any], upside_down: bool) -> None:
        traits = ", ".join([str(self.channels), *(str(flag).lower() for flag in flags)])
        name = f"{kernel}<{traits}>"
        given = *arguments, *self.sides, int(upside_down)
        cuda.start(name, self.device, self.count, THREADS, *given, early=True)


class Norm(NamedTuple):
    """What the backward pass of a BatchNorm has yet to add to the gradient of its input."""

    x: Tensor
    extra: Tensor | None  # the gradient that comes to x past it
    moments: Tensor
    gamma: Tensor
    sums: Tensor  # of the gradient behind it, and of that times x as normed


class NormConvolve(Function):
    """x to x, y = convolve(h) + skip and the statistics of y, where h = activation(BatchNorm(x)).

    `statistics` are those of x, from the call that made it. Without them h is x. `arrived` is a row
    of zeros that is such a row again afterwards.

    In the backward pass, the BatchNorm's part of the gradient of x is left to the call that made x,
    which reads that gradient anyway: `lacking` has what it needs, by the address of the gradient.
    Layers that are `upside_down` begin with the last rows; every other layer should be.
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
        lacking: dict[int, Norm],
        upside_down: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        tiles, y = Tiles(x), torch.empty_like(x)
        normed, added = statistics is not None, skip is not None
        tracked = (norm.running_mean, norm.running_var, norm.num_batches_tracked)
        if not norm.track_running_stats:
            tracked = (None, None, None)
        h = torch.empty_like(x) if normed else x
        moments = tiles.sums.new_empty(2, tiles.channels)
        tiles.start(
            "forward", normed, added,
            arguments=[
                x, weight, x if skip is None else as_rows(skip), h, y,
                tiles.sums, arrived, tiles.totals,
                moments if statistics is None else statistics, gamma, beta, moments,
                *tracked, norm.momentum or 0.0, norm.eps,
            ],
            upside_down=upside_down,
        )  # fmt: skip
        ctx.save_for_backward(x, h, weight, gamma, beta, moments)
        ctx.normed, ctx.added, ctx.upside_down = normed, added, upside_down
        ctx.arrived, ctx.beside, ctx.lacking = arrived, beside, lacking
        ctx.mark_non_differentiable(tiles.totals)
        ctx.set_materialize_grads(False)
        return x, y, tiles.totals

    @staticmethod
    def backward(
        ctx: Any, grad_x: Tensor | None, grad: Tensor, _: None
    ) -> tuple[Tensor | None, ...]:
        x, h, weight, gamma, beta, moments = ctx.saved_tensors
        following = ctx.lacking.pop(grad.data_ptr(), None)
        whole = as_rows(grad) if following is None else torch.empty_like(grad)

        def of_weight() -> Tensor | None:
            if not ctx.needs_input_grad[4]:
                return None
            with ctx.beside.reading(h, whole):
                return weight_gradient(h, whole, weight, 1, 1)

        grad_weight = of_weight() if following is None else None  # the sooner the better
        tiles, out, sums = Tiles(x), torch.empty_like(x), torch.empty_like(moments)
        grad_gamma, grad_beta = torch.empty_like(gamma), torch.empty_like(beta)
        tiles.start(
            "backward", ctx.normed, following is not None,
            arguments=[
                whole if following is None else grad, weight, out, x, moments, gamma, beta,
                tiles.sums, ctx.arrived, tiles.totals, sums, grad_gamma, grad_beta,
                *(following or Norm(x, None, moments, gamma, sums)), whole,
            ],
            upside_down=ctx.upside_down,
        )  # fmt: skip
        if following is not None:
            grad_weight = of_weight()
        grads: tuple[Tensor | None, ...] = (None, None)
        if ctx.normed:
            extra = None if grad_x is None else as_rows(grad_x)
            ctx.lacking[out.data_ptr()] = Norm(x, extra, moments, gamma, sums)
            grads = grad_gamma, grad_beta
        return out, None, *grads, grad_weight, whole if ctx.added else None, *[None] * 5
