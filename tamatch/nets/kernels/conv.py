"""Convolutions in the precision of the maps: cuDNN's, but for narrow ones."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from . import narrow
from .beside import Beside
from .norm import as_rows


class Convolve(Function):
    """A convolution, by whichever kernels are fast for its width.

    `beside` may compute the gradient of a weight that goes to `Rounded` and to nothing before.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int, beside: Beside | None
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.geometry = ([stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1)
        ctx.narrow, ctx.beside = narrow.fits(x, weight, stride), beside
        if ctx.narrow and weight.shape[1] == narrow.LEAST:
            return narrow.convolve(x, weight)
        return torch.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad = as_rows(grad)
        back = partial(torch.ops.aten.convolution_backward, grad, x, weight, None, *ctx.geometry)
        grad_x = grad_weight = None
        if ctx.needs_input_grad[1]:
            with nullcontext() if ctx.beside is None else ctx.beside.reading(x, grad):
                if ctx.narrow:
                    grad_weight = narrow.weight_gradient(x, grad, weight)
                else:
                    grad_weight = back([False, True, False])[1]
        if ctx.needs_input_grad[0]:
            grad_x = back([True, False, False])[0]
        return grad_x, grad_weight, None, None, None
