"""Convolutions in the precision of the maps, and their gradients: by cuDNN, except for narrow and
exact ones; and the first convolution, whose images have three channels."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from ...machine.branches import Beside
from . import cuda, narrow, split
from .narrow import LEAST
from .norm import as_rows, processors

CHANNELS = 32  # that our own kernel is for; from 64 on cuDNN's are faster
BLOCKS, THREADS = 2, 192  # for each multiprocessor, and of each
WIDTH, ADDERS = 32, 256  # columns that a block adds up, and its threads
BLOCK = 256  # pixels of a program of `_widen`


def weight_gradient(x: Tensor, grad: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """The gradient of the weight, given that of the result."""
    if padding == 1 and len(weight) == CHANNELS and cuda.fits(x, weight, stride):
        return added_up(in_shares(x, grad), weight)
    if narrow.fits(x, weight, stride):
        return added_up(narrow.weight_gradients(x, grad, weight), weight)
    shape = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1
    only = [False, True, False]
    result = torch.ops.aten.convolution_backward(grad, x, weight, None, *shape, only)[1]
    assert isinstance(result, Tensor)
    return result


def in_shares(x: Tensor, grad: Tensor) -> Tensor:
    """By our own kernel: (shares, O, 3, 3, I), each for some of the tiles of half the rows."""
    tiles = 2 * cuda.tiles_of(x)
    shares = min(tiles, BLOCKS * processors(x.device))
    sums = x.new_empty(shares, CHANNELS, 3, 3, CHANNELS, dtype=torch.float32)
    cuda.start("weight_gradient", x.device, shares, THREADS, x, grad, sums, tiles, *x.shape[2:])
    return sums


def added_up(sums: Tensor, weight: Tensor) -> Tensor:
    """The gradient over all shares, in the precision and layout of the weight."""
    rows, columns = len(sums), weight.numel()
    if weight.dtype != torch.bfloat16 or columns % WIDTH or not cuda.usable(weight.device):
        return sums.sum(0).permute(0, 3, 1, 2).to(weight.dtype)
    result = torch.empty_like(weight, memory_format=torch.channels_last)
    cuda.start("add_up", weight.device, columns // WIDTH, ADDERS, sums, result, rows, columns)
    return result


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
    """A 3 x 3 convolution of images with a bias, in the precision of its weight.

    The tensor cores need 16 channels and images have three. The first added channel is 1
    everywhere, and the centre of its weight is the bias.
    """

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
