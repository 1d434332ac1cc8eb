"""Images made of two: what methods mix, with which partners, and what the targets are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .. import dist
from ..losses import one_hot
from ..pseudo import Pseudo
from ..types import Batch


def mixup_draw(
    count: int, alpha: float, device: torch.device, each: bool = False
) -> tuple[Tensor, Tensor]:
    """max(λ, 1−λ) with λ ~ Beta(α, α), one or `count` of them, and a random partner for each row.

    λ = g₁/(g₁ + g₂), g ~ Gamma(α), as logarithms: for a small α the g themselves underflow.
    Gamma(α) is distributed as Gamma(α + 1)·U^(1/α).
    """
    shape = (2, count) if each else (2,)
    gamma = torch._standard_gamma(torch.full(shape, alpha + 1, device=device))
    first, second = gamma.log() + torch.rand(shape, device=device).neg().log1p() / alpha
    return (first - second).abs().sigmoid(), torch.rand(count, device=device).argsort()


class MixUp:
    """λ·a + (1−λ)·a[partner] of images and of their targets, with one λ for all or for `each` row.

    Views, the labelled one first, are joined before they are mixed. Partners may come from any
    process. With one λ, each process gets its share of each chunk as long as the labelled batch;
    with many, the rows of a process stay its own, in their order.
    """

    def __init__(self, views: Sequence[Tensor], alpha: float, *, each: bool = False) -> None:
        sizes = [dist.world() * len(view) for view in views]
        self.chunk = sizes if each else sizes[0]
        self.lam, self.partner = mixup_draw(sum(sizes), alpha, views[0].device, each)

    def __call__(self, views: Sequence[Tensor]) -> Tensor:
        a = torch.cat([dist.gather(view) for view in views])
        lam = self.lam.to(a.dtype).view(-1, *[1] * (a.dim() - 1))
        return dist.mine(lam * a + (1 - lam) * a[self.partner], self.chunk)

    def partners(self, views: Sequence[Tensor]) -> Tensor:
        """What each row's partner has, such as a mask."""
        return dist.mine(torch.cat([dist.gather(view) for view in views])[self.partner], self.chunk)


class Mixed(NamedTuple):
    """Mixed images, the B labelled ones first, their targets, and which of them count."""

    images: Tensor  # (B + Bu, ...)
    target: Tensor  # (B + Bu, C)
    mask: Tensor  # (B + Bu,)


def mix_accepted(batch: Batch, pseudo: Pseudo, alpha: float) -> Mixed:
    """EfficientMatch's channel: every weak view with a random partner that was accepted.

    x̃ = λx + (1−λ)x′,  ỹ = λ·1[y] + (1−λ)·1[y′],  λ = max(b, 1−b) of its own, b ~ Beta(α, α), for
    x in the labelled batch and the weak views of the pool. It counts if x′ is labelled or accepted;
    whether x itself was accepted does not matter.
    """
    views = [batch.x[0], batch.u[0]]
    mix = MixUp(views, alpha, each=True)
    targets = [one_hot(label, pseudo.p.shape[-1]) for label in (batch.y, pseudo.label)]
    labelled = torch.ones_like(batch.y, dtype=pseudo.mask.dtype)
    return Mixed(mix(views), mix(targets), mix.partners([labelled, pseudo.mask]))
