"""Convolutions in the precision of the maps: cuDNN's, but for narrow ones and exact ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from . import narrow, split
from .beside import Beside
from .norm import as_rows
from .weights import weight_gradient


class Convolve(Function):
    """A convolution without a bias; its weight's gradient goes to `Rounded` as it is."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int, beside: Beside
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.geometry, ctx.beside = (stride, padding), beside
        return convolve(x, weight, stride, padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad, grad_x, grad_weight = as_rows(grad), None, None
        if ctx.needs_input_grad[1]:
            with ctx.beside.reading(x, grad):
                grad_weight = weight_gradient(x, grad, weight, *ctx.geometry)
        if ctx.needs_input_grad[0]:
            grad_x = map_gradient(x, grad, weight, *ctx.geometry)
        return grad_x, grad_weight, None, None, None


def convolve(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """The convolution of a map."""
    if narrow.fits(x, weight, stride) and weight.shape[1] == narrow.LEAST:
        return narrow.convolve(x, weight)
    if split.fits(x, weight, stride):
        return split.convolve(x, weight)
    return torch.conv2d(x, weight, None, stride, padding)


def map_gradient(x: Tensor, grad: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """The gradient of the map, given that of the result."""
    back = weight.transpose(0, 1)
    if split.fits(grad, back, stride):
        return split.convolve(grad, as_rows(back.flip(2, 3)))
    shape = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1
    only = [True, False, False]
    result = torch.ops.aten.convolution_backward(grad, x, weight, None, *shape, only)[0]
    assert isinstance(result, Tensor)
    return result
