"""Convolutions whose weight gradients run beside the rest of the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from . import narrow


class Beside:
    """A stream for weight gradients: nothing reads them before the whole backward pass is done."""

    def __init__(self) -> None:
        self.stream: torch.cuda.Stream | None = None
        self.held: list[Tensor] = []  # what that stream still reads must not be freed

    @contextmanager
    def reading(self, *tensors: Tensor) -> Iterator[None]:
        if not capturing(tensors[0].device):  # cuDNN may be measuring its kernels just now
            yield
            return
        if self.stream is None:
            self.stream = torch.cuda.Stream(tensors[0].device)
        self.stream.wait_stream(torch.cuda.current_stream())
        self.held.extend(tensors)
        with torch.cuda.stream(self.stream):
            yield

    def join(self) -> None:
        if self.stream is not None and self.held:
            torch.cuda.current_stream().wait_stream(self.stream)
            self.held.clear()


def capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


BESIDE = Beside()


class Rounded(Function):
    """All convolution weights in the precision of the maps; back, their gradients as they were."""

    @staticmethod
    def forward(
        ctx: Any, beside: Beside, dtype: torch.dtype, *weights: Tensor
    ) -> tuple[Tensor, ...]:
        beside.join()
        ctx.beside, ctx.dtype = beside, weights[0].dtype
        return in_line(weights, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        ctx.beside.join()
        dense = tuple(g.contiguous(memory_format=torch.channels_last) for g in grads)
        return None, None, *in_line(dense, ctx.dtype)


def in_line(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Copies in another precision, by two kernels however many tensors there are."""
    line = torch.cat([t.as_strided((t.numel(),), (1,)) for t in tensors]).to(dtype)
    parts = torch.split(line, [t.numel() for t in tensors])
    return tuple(
        p.as_strided(t.shape, t.stride(), p.storage_offset())
        for p, t in zip(parts, tensors, strict=True)
    )


class Convolve(Function):
    """A convolution whose weight gradient is computed beside the rest of the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int, beside: Beside
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.geometry = ([stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1)
        ctx.beside = beside
        ctx.narrow = narrow.fits(weight, stride)
        if ctx.narrow and len(weight[0]) == narrow.LEAST:
            return narrow.convolve(x, weight)
        return torch.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        grad_x = grad_weight = None
        back = torch.ops.aten.convolution_backward
        with ctx.beside.reading(x, grad):
            if ctx.narrow:
                grad_weight = narrow.weight_gradient(x, grad, weight)
            else:
                _, grad_weight, _ = back(grad, x, weight, None, *ctx.geometry, [False, True, False])
        if ctx.needs_input_grad[0]:
            grad_x, _, _ = back(grad, x, weight, None, *ctx.geometry, [True, False, False])
        return grad_x, grad_weight, None, None, None
