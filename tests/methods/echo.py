"""A net that repeats its input: a test writes logits down and reads their gradients off."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tamatch.types import Batch, Out, Task


class Echo(nn.Module):
    """Its images are its logits."""

    width = map_width = 1

    def forward(self, images: Tensor) -> Out:
        return Out(images, images, images)


def echo_task(classes: int = 4, **facts: Any) -> Task:
    shares = (1 / classes,) * classes
    return Task(
        **{"labelled": 8, "unlabelled": 30, "labelled_shares": shares, **facts}, classes=classes
    )


def random_logits(seed: int, rows: int = 12, classes: int = 4, scale: float = 2.0) -> Tensor:
    return scale * torch.randn(rows, classes, generator=torch.Generator().manual_seed(seed))


def echo_batch(
    seed: int = 0,
    *,
    x: tuple[Tensor, ...] | None = None,
    u: tuple[Tensor, ...] | None = None,
    ids: list[int] | None = None,
    step: int = 50,
) -> Batch:
    """Views given as logits, or random ones; leaves, so that each has a gradient of its own."""
    x = (random_logits(4 * seed + 1, rows=6),) if x is None else x
    u = (random_logits(4 * seed + 2), random_logits(4 * seed + 3)) if u is None else u
    classes = x[0].shape[-1]
    return Batch(
        x=tuple(view.clone().requires_grad_() for view in x),
        y=torch.arange(len(x[0])) % classes,
        u=tuple(view.clone().requires_grad_() for view in u),
        id_x=torch.arange(len(x[0])),
        id_u=torch.tensor(list(range(len(u[0]))) if ids is None else ids),
        step=torch.tensor(step),
        progress=torch.tensor(step / 100),
    )


def seen(method: Any) -> list[Any]:
    """The list to which each call of the method's labeler adds its pseudo-labels."""
    found: list[Any] = []
    method.labeler.register_forward_hook(lambda module, given, pseudo: found.append(pseudo))
    return found
