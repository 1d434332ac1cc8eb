"""Several processes, or one: the same calls, which do nothing when the world is one process."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch import distributed as dist
from torch.nn import Parameter


def world() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is; process 0 writes the files."""
    return dist.get_rank() if world() > 1 else 0


def mean_(x: Tensor) -> Tensor:
    """Average a tensor over all processes, in place."""
    if world() > 1:
        dist.all_reduce(x)
        x.div_(world())
    return x


def max_(x: Tensor) -> Tensor:
    """The largest of a tensor over all processes, in place."""
    if world() > 1:
        dist.all_reduce(x, dist.ReduceOp.MAX)
    return x


def gather(x: Tensor) -> Tensor:
    """Join the rows of all processes, in rank order; no gradient."""
    if world() == 1:
        return x
    rows = [torch.empty_like(x) for _ in range(world())]
    dist.all_gather(rows, x.contiguous())
    return torch.cat(rows)


def mean_grads_(parameters: Iterable[Parameter]) -> None:
    """Average the gradients over all processes: one call for all of them together."""
    if world() == 1:
        return
    grads = [p.grad for p in parameters if p.grad is not None]
    flat = mean_(torch.cat([g.flatten() for g in grads]))
    for grad, part in zip(grads, torch.split(flat, [g.numel() for g in grads]), strict=True):
        grad.copy_(part.view_as(grad))
