"""MixMatch (Berthelot et al., 2019, arXiv:1905.02249)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .. import dist
from ..kinds import Alpha, Inherited, LambdaU, Rampup, Temperature
from ..losses import each_ce, each_mse, one_hot, ramp, sharpen
from ..types import Batch, Loss, Task, Views
from .base import Method, constant_branch, frozen_norm


class MixMatch(Method):
    """Guess a label from two weak views, sharpen it, and mix everything with everything.

    q = Sharpen(½(p(w₁) + p(w₂)), T),  (x′, y′) = MixUp([x; w₁; w₂], [y; q; q]; Beta(α, α)),
    L = mean_{first B} H(y′, p(x′)) + λ_u·R(κ) · mean_{rest} (1/C)‖p(x′) − y′‖².
    `parity="usb"` changes nothing.
    """

    views = Views(u=("weak", "weak"))
    alters_inputs = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_u: LambdaU = 10.0,  # the benchmark's for ViT; 100 to 150 for WRN
        alpha: Alpha = 0.5,  # the benchmark's; theirs: 0.75
        temperature: Temperature = 0.5,  # their T
        rampup: Rampup = 0.4,  # the benchmark's κ
        **base: Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.lambda_u, self.rampup = lambda_u, rampup
        self.alpha, self.temperature = alpha, temperature

    def forward(self, batch: Batch) -> Loss:
        with constant_branch(batch.u[0], self.net) as aside:
            p_1, p_2 = aside(lambda: [self.net(view).logits.softmax(-1) for view in batch.u])
            logits, mix = mixed_logits(self.net, [*batch.x, *batch.u], self.alpha)
        q = sharpen((p_1 + p_2) / 2, self.temperature)
        targets, size = mix([one_hot(batch.y, self.task.classes), q, q]), len(batch.y)
        sup = each_ce(logits[:size], targets[:size]).mean()
        unsup = each_mse(logits[size:].softmax(-1), targets[size:]).mean()
        total = sup + self.lambda_u * ramp(batch.progress, self.rampup) * unsup
        return Loss(total, {"sup": sup.detach(), "unsup": unsup.detach()})


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
