"""The gradient of a convolution's weight, by whichever kernels are fast for its width."""

from __future__ import annotations

import torch
from torch import Tensor

from . import cuda, narrow
from .norm import processors

CHANNELS = 32  # that our own kernel is for; from 64 on cuDNN's are faster
BLOCKS, THREADS = 2, 192  # for each multiprocessor, and of each
WIDTH, ADDERS = 32, 256  # columns that a block adds up, and its threads


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
