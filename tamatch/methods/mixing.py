"""MixUp, and the forward of a mixed batch in chunks, as MixMatch and ReMixMatch need them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .. import dist
from .base import frozen_norm


def mixup_draw(count: int, alpha: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """max(λ, 1−λ) with λ ~ Beta(α, α), and a random partner for each of `count` rows.

    λ = g₁/(g₁ + g₂), g ~ Gamma(α), as logarithms: for a small α the g themselves underflow.
    Gamma(α) is distributed as Gamma(α + 1)·U^(1/α).
    """
    gamma = torch._standard_gamma(torch.full((2,), alpha + 1, device=device))
    first, second = gamma.log() + torch.rand(2, device=device).neg().log1p() / alpha
    return (first - second).abs().sigmoid(), torch.rand(count, device=device).argsort()


class MixUp:
    """λ·a + (1−λ)·a[partner] of images and of their targets, with one λ for all.

    Views, the labelled one first, are joined before they are mixed. Partners may come from any
    process; each process gets its share of each chunk as long as the labelled batch.
    """

    def __init__(self, views: Sequence[Tensor], alpha: float) -> None:
        count, self.chunk = (dist.world() * n for n in (sum(map(len, views)), len(views[0])))
        self.lam, self.partner = mixup_draw(count, alpha, views[0].device)

    def __call__(self, views: Sequence[Tensor]) -> Tensor:
        a = torch.cat([dist.gather(view) for view in views])
        return dist.mine(self.lam * a + (1 - self.lam) * a[self.partner], self.chunk)


def mixed_logits(net: nn.Module, views: Sequence[Tensor], alpha: float) -> tuple[Tensor, MixUp]:
    """Logits of the mixed views, and how they were mixed: so are their targets to be."""
    mix = MixUp(views, alpha)
    return chunked_logits(net, mix(views), len(views[0])), mix


def chunked_logits(net: nn.Module, images: Tensor, size: int) -> Tensor:
    """Logits chunk by chunk: each is normalised by itself, only the first moves the statistics."""
    first, *rest = torch.split(images, size)
    logits = [net(first).logits]
    with frozen_norm(net):
        logits += [net(chunk).logits for chunk in rest]
    return torch.cat(logits)
