"""Convolutions in the precision of the maps: cuDNN's, but for narrow ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from . import narrow


class Rounded(Function):
    """All convolution weights in the precision of the maps; back, their gradients as they were."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = weights[0].dtype
        return in_line(weights, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dense = tuple(g.contiguous(memory_format=torch.channels_last) for g in grads)
        return None, *in_line(dense, ctx.dtype)


def in_line(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Copies in another precision, by two kernels however many tensors there are."""
    line = torch.cat([t.as_strided((t.numel(),), (1,)) for t in tensors]).to(dtype)
    pairs = zip(torch.split(line, [t.numel() for t in tensors]), tensors, strict=True)
    return tuple(p.as_strided(t.shape, t.stride(), p.storage_offset()) for p, t in pairs)


class Convolve(Function):
    """A convolution, by whichever kernels are fast for its width."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.geometry = ([stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1)
        ctx.narrow = narrow.fits(weight, stride)
        if ctx.narrow and weight.shape[1] == narrow.LEAST:
            return narrow.convolve(x, weight)
        return torch.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        wanted = [ctx.needs_input_grad[0], not ctx.narrow, False]
        back = torch.ops.aten.convolution_backward
        grad_x, grad_weight, _ = back(grad, x, weight, None, *ctx.geometry, wanted)
        if ctx.narrow:
            grad_weight = narrow.weight_gradient(x, grad, weight)
        return grad_x, grad_weight, None, None
