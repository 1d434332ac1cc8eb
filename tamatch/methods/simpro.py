"""SimPro (Du, Han and Huang, ICML 2024, arXiv:2402.13505)."""

import torch
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, mean_of, one_hot
from ..pseudo import Pseudo
from ..stats import Ema, Tally, log_shares, start_of_target
from ..types import Batch, Loss, Task, Views
from .base import Method


class SimPro(Method):
    """One likelihood of labelled and unlabelled images, whose class shares are estimated by EM.

    q = softmax(z^w + κ·log π_u),  m = 1[max q ≥ τ],
    L = (B_u·N_l)/(B·N_u) · E[H(y, softmax(z + κ·log π))] + E[m·H(q, softmax(z^s + κ·log π))],
    over a weak and a strong view of x and two strong views of u; N_l and N_u count the images.
    π_u and π are running class shares: of the accepted q, and of these and the labels together.
    The published code renews both once an epoch. `parity="usb"` changes nothing.
    """

    views = Views(x=("weak", "strong"), u=("weak", "strong", "strong"))

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.95,  # as in their code
        strength: kinds.Strength = 2.0,  # their τ for ten classes
        momentum: kinds.Momentum = 0.999,  # 0.9 an epoch in their code
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.tau, self.strength = tau, strength
        seen = task.batch_unlabelled * task.labelled, task.batch_labelled * task.unlabelled
        self.lambda_x = seen[0] / seen[1]
        self.pool = Ema(start_of_target(task, "uniform"), momentum)
        self.whole = Ema(start_of_target(task, "labelled"), momentum)
        self.tally = Tally(task)

    def forward(self, batch: Batch) -> Loss:
        *x, weak, one, two = self.predict(*batch.x, *batch.u, constant=2)
        prior = self.strength * log_shares(self.whole.value)
        pseudo = self.labels(weak.logits.detach())
        self.learn_(pseudo, batch.y)
        self.tally.add_(batch.id_u, pseudo.mask)
        sup = mean_of([each_ce(out.logits + prior, batch.y) for out in x])
        unsup = mean_of([pseudo.loss(out.logits + prior, pseudo.p) for out in (one, two)])
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), "p_model": self.pool.value}
        return Loss(self.lambda_x * sup + unsup, {**parts, **pseudo.report()})

    def labels(self, logits: Tensor) -> Pseudo:
        q = (logits + self.strength * log_shares(self.pool.value)).softmax(-1)
        mask = (q.amax(-1) >= self.tau).float()
        return Pseudo(q, q.argmax(-1), mask, torch.ones_like(mask))

    def learn_(self, pseudo: Pseudo, y: Tensor) -> None:
        """The M-step: class shares of what this batch holds."""
        accepted = dist.sum_((pseudo.mask[:, None] * pseudo.p).double().sum(0))
        labels = dist.sum_(one_hot(y, self.task.classes).double().sum(0))
        self.pool.update_share_(accepted)
        self.whole.update_share_(accepted + labels)
