"""Dash (Xu et al., 2021, ICML, arXiv:2109.00650)."""

import torch
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, one_hot
from ..pseudo import Pseudo
from ..stats import Tally
from ..types import Batch, Loss, Task
from .base import Method


class Dash(Method):
    """FixMatch that selects by a falling bound ρ on the loss of the weak view.

    L = E[H(y, p(x))] + λ_u·E[m·H(q, p^s)],  m = 1[H(q, p^w) ≤ ρ],  q = softmax(z^w/T), or
    one-hot once ρ = ρ_min;  ρ = max(C·γ^(−k)·ρ_init, ρ_min), where k counts periods.

    A run begins with supervised steps; ρ_init is the labelled loss at their end. `parity="usb"`
    takes it from the first step: the published code measured untrained weights, on test images,
    which a method here cannot see.
    """

    rho_init: Tensor

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_u: kinds.LambdaU = 1.0,
        rho_decay: kinds.LossBoundDecay = 1.27,  # their γ
        rho_scale: kinds.LossBoundScale = 1.0001,  # their C
        rho_min: kinds.LowestLossBound = 0.05,  # this and what follows are the benchmark's
        rho_period: kinds.LossBoundPeriod | None = None,  # 10,240 steps, at most 5 % of the run
        supervised_steps: kinds.SupervisedSteps
        | None = None,  # 2,048 steps, but at most 1 % of the run
        temperature: kinds.Temperature = 0.5,
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.lambda_u, self.temperature = lambda_u, temperature
        self.gamma, self.c, self.rho_min = rho_decay, rho_scale, rho_min
        self.period = rho_period or max(1, min(10_240, task.steps // 20))
        self.warmup = supervised_steps or max(1, min(2048, task.steps // 100))
        self.first = 0 if self.parity == "usb" else max(0, self.warmup - 100)
        self.last = 1 if self.parity == "usb" else self.warmup  # ρ_init: steps first … last-1
        self.tally = Tally(task)
        self.register_buffer("rho_init", torch.zeros((), dtype=torch.float64))

    def forward(self, batch: Batch) -> Loss:
        x, weak, strong = self.predict(*batch.x, *batch.u, constant=1)
        sup = each_ce(x.logits, batch.y).mean()
        self.learn_(batch.step, sup)
        rho = self.rho(batch.step)
        pseudo, target = self.label(weak.logits.detach(), rho)
        pseudo = pseudo._replace(mask=pseudo.mask * (batch.step >= self.warmup))
        self.tally.add_(batch.id_u, pseudo.mask)
        unsup = pseudo.loss(strong.logits, target)
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), "rho": rho, **pseudo.report()}
        return Loss(sup + self.lambda_u * unsup, parts)

    def learn_(self, step: Tensor, sup: Tensor) -> None:
        """Add this step's share of ρ_init."""
        share = dist.mean_(sup.detach().double().clone()) / (self.last - self.first)
        self.rho_init.add_(share * (step >= self.first) * (step < self.last))

    def rho(self, step: Tensor) -> Tensor:
        """max(C·γ^(−k)·ρ_init, ρ_min)."""
        k = (step - self.warmup).clamp(min=0) // self.period
        return (self.c * self.gamma ** -k.double() * self.rho_init).clamp(min=self.rho_min)

    def label(self, logits: Tensor, rho: Tensor) -> tuple[Pseudo, Tensor]:
        """The pseudo-labels whose loss is at most ρ, and what the strong view must predict."""
        label = logits.argmax(-1)
        soft = (logits / self.temperature).softmax(-1)
        target = torch.where(rho > self.rho_min, soft, one_hot(label, logits.shape[-1]))
        mask = (each_ce(logits, target) <= rho).float()
        return Pseudo(logits.softmax(-1), label, mask, torch.ones_like(mask)), target
