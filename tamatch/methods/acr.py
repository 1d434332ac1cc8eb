"""ACR (Wei and Gan, CVPR 2023): Adaptive Consistency Regularizer."""

import torch
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, kl, mean_of, one_hot
from ..pseudo import Pseudo
from ..stats import EPS, Ema, Tally, log_shares, start_of_target
from ..types import Batch, Loss, Task, Views
from .base import Head, Method

FIRST = 0.01  # of the run, before κ_t follows the estimate: their 5 of 500 epochs


class ACR(Method):
    """A head g for the features, a balanced one z for tests, both labelled by g.

    L = E[H(y, g(x))] + E[H(y, z(x) + κ·log π)] + λ_u·E[m_g·H(ŷ_g, g^s)] + λ_u·E[m_z·H(ŷ_z, z^s)],
    ŷ_g = argmax q_g,  q_g = softmax(g^w − κ_t·log π),  m_g = 1[max q_g ≥ τ or max p_g^w ≥ τ],
    ŷ_z = argmax q_z,  q_z = softmax(g^w − κ·log π),    m_z = 1[max q_z ≥ τ or max p_z^w ≥ τ],
    π the labelled class shares. κ_t = κ·softmax(d)₁, d the symmetric KL divergences between the
    estimated shares of the pool and π, equal shares, and π with its ranks reversed.

    The estimate is the running mean of the labels that z is sure of. The published code counts
    each class at most once a batch, and renews κ_t once an epoch. `parity="usb"` changes nothing.
    """

    views = Views(u=("weak", "strong", "strong"))
    labelled: Tensor  # π
    anchors: Tensor  # (3, C): π, equal shares, π reversed

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.95,  # all as in their code
        lambda_u: kinds.LambdaU = 1.0,
        strength: kinds.Strength = 2.0,
        momentum: kinds.Momentum = 0.999,  # 0.9 in their code, and then the mean over an epoch
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.tau, self.lambda_u, self.strength = tau, lambda_u, strength
        self.second = Head(net, task)
        uniform, shares = start_of_target(task, "uniform"), start_of_target(task, "labelled")
        self.shares, self.tally = Ema(uniform, momentum), Tally(task)
        ordered, ranks = shares.sort().values, shares.argsort().argsort()
        self.register_buffer("anchors", torch.stack([shares, uniform, ordered.flip(0)[ranks]]))
        self.register_buffer("labelled", log_shares(shares))

    def forward(self, batch: Batch) -> Loss:
        x, weak, *strong = self.predict(*batch.x, *batch.u, constant=1)
        prior, z_w, g_w = self.labelled, weak.logits.detach(), self.second(weak).detach()
        plain = self.labels(g_w - self.adapted(batch.progress) * prior, g_w)
        balanced = self.labels(g_w - self.strength * prior, z_w)
        self.learn_(z_w)
        self.tally.add_(batch.id_u, balanced.mask)
        at_x = self.strength * prior
        sup = each_ce(x.logits + at_x, batch.y).mean() + each_ce(self.second(x), batch.y).mean()
        unsup = mean_of([balanced.loss(out.logits) for out in strong])
        unsup = unsup + mean_of([plain.loss(self.second(out)) for out in strong])
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), "p_model": self.shares.value}
        return Loss(sup + self.lambda_u * unsup, {**parts, **balanced.report()})

    def labels(self, logits: Tensor, other: Tensor) -> Pseudo:
        """Labels by adjusted logits; accepted if these are confident, or others are."""
        p = logits.softmax(-1)
        confidence = p.amax(-1).maximum(other.softmax(-1).amax(-1))
        mask = (confidence >= self.tau).float()
        return Pseudo(p, p.argmax(-1), mask, torch.ones_like(mask))

    def adapted(self, progress: Tensor) -> Tensor:
        """κ_t: the further the pool's shares are from π, the more of π's effect is removed."""
        here, there = self.shares.value + EPS, self.anchors + EPS
        away = (kl(here.expand_as(there), there) + kl(there, here.expand_as(there))) / 2
        share = away.softmax(-1)[0].float()
        return self.strength * torch.where(progress < FIRST, 1.0, share)

    def learn_(self, logits: Tensor) -> None:
        """Update the estimated shares of the pool."""
        p = logits.softmax(-1)
        sure = (p.amax(-1) >= self.tau).double()[:, None]
        self.shares.update_share_(dist.mean_((sure * one_hot(p.argmax(-1), len(p[0]))).mean(0)))
