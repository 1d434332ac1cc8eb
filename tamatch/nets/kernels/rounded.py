"""Many weights rounded to the precision of the maps, as one piece of work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

ALIGNED = 8  # numbers of two bytes or more
Layout = tuple[torch.Size, tuple[int, ...]]  # shape and strides


class Rounded(Function):
    """All weights in another precision; back, their gradients in the weights' own.

    Autocast would round each weight by a kernel of its own, there and back.
    """

    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, join: Callable[..., None], *weights: Tensor
    ) -> tuple[Tensor, ...]:
        """`join` is called with the gradients before they are read."""
        ctx.dtype, ctx.join = weights[0].dtype, join
        ctx.layouts = [(weight.shape, weight.stride()) for weight in weights]
        return in_line(weights, [in_rows(weight) for weight in weights], dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        ctx.join(*grads)
        return None, None, *in_line(grads, ctx.layouts, ctx.dtype)


def in_rows(weight: Tensor) -> Layout:
    """Channels-last, as the kernels read it; a net may keep it otherwise."""
    order = torch.channels_last
    if not weight.is_contiguous(memory_format=order):
        weight = torch.empty_like(weight, device="meta", memory_format=order)
    return weight.shape, weight.stride()


def in_line(
    tensors: Sequence[Tensor], layouts: Sequence[Layout], dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """Copies that lie one behind the other in memory, each where a load of 16 bytes may begin."""
    sizes = [-(-tensor.numel() // ALIGNED) * ALIGNED for tensor in tensors]
    parts = torch.split(torch.empty(sum(sizes), dtype=dtype, device=tensors[0].device), sizes)
    copies = [
        part.as_strided(*layout, part.storage_offset())
        for part, layout in zip(parts, layouts, strict=True)
    ]
    torch._foreach_copy_(copies, list(tensors))
    return tuple(copies)
