"""The first convolution: images have three channels, and the tensor cores want sixteen.

The first new channel is 1 everywhere, and the centre of its weight is the bias.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from .conv import convolve, map_gradient
from .narrow import LEAST
from .norm import as_rows
from .weights import weight_gradient

BLOCK = 256  # pixels of a program


@triton.jit
def _widen(
    x, bias, out, pixels, plane, of_image, of_channel, of_pixel,
    CHANNELS: tl.constexpr, WIDTH: tl.constexpr, CENTRE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows of WIDTH channels. `plane` pixels are an image, or the taps of a weight with a bias."""
    pixel, channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    image, place, inside = (pixel // plane).to(tl.int64), pixel % plane, pixel < pixels
    at = (image * of_image + place * of_pixel)[:, None] + channel[None, :] * of_channel
    value = tl.load(x + at, inside[:, None] & (channel < CHANNELS)[None, :], 0.0).to(tl.float32)
    one = tl.full((BLOCK,), 1.0, tl.float32)
    if CENTRE >= 0:
        one = tl.load(bias + image, inside & (place == CENTRE), 0.0)
    value = tl.where((channel == CHANNELS)[None, :], one[:, None], value)
    to = out + pixel[:, None] * WIDTH + channel[None, :]
    tl.store(to, value.to(out.dtype.element_ty), inside[:, None])


def widened(x: Tensor, like: Tensor, bias: Tensor | None = None) -> Tensor:
    """Images with more channels, or with a bias the weight that goes with them; as `like` is."""
    count, channels, height, width = x.shape
    if x.stride(2) != width * x.stride(3):  # a part of larger images
        x = x.contiguous()
    plane, out = height * width, like.new_empty(count, height, width, LEAST)
    _widen[(triton.cdiv(count * plane, BLOCK),)](
        x, x if bias is None else bias, out, count * plane, plane,
        x.stride(0), x.stride(1), x.stride(3),
        CHANNELS=channels, WIDTH=LEAST, CENTRE=-1 if bias is None else plane // 2, BLOCK=BLOCK,
    )  # fmt: skip
    return out.permute(0, 3, 1, 2)


class Stem(Function):
    """A 3 x 3 convolution with a bias, in the precision of its weight."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x, wide = widened(images, weight), widened(weight, weight, bias)
        ctx.save_for_backward(x, wide)
        ctx.channels, ctx.dtype, ctx.bias_dtype = images.shape[1], images.dtype, bias.dtype
        return convolve(x, wide, 1, 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, wide = ctx.saved_tensors
        grad, grad_x, grad_weight, grad_bias = as_rows(grad), None, None, None
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            whole = weight_gradient(x, grad, wide, 1, 1)
            grad_weight = as_rows(whole[:, : ctx.channels])
            grad_bias = whole[:, ctx.channels, 1, 1].to(ctx.bias_dtype)
        if ctx.needs_input_grad[0]:
            grad_x = map_gradient(x, grad, wide, 1, 1)[:, : ctx.channels].to(ctx.dtype)
        return grad_x, grad_weight, grad_bias
