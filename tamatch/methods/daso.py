"""DASO (Oh, Kim and Kweon, CVPR 2022, arXiv:2106.05682)."""

from typing import Annotated, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, one_hot
from ..machine.precision import without_autocast
from ..modules import unshifted
from ..stats import Ema, write_by_id_
from ..types import Batch, Loss, Out, Task
from .base import constant_branch
from .fixmatch import FixMatch

Rows = Annotated[int, kinds.AT_LEAST_ONE, "features of each class in the memory"]
AssignWeight = Annotated[
    float, kinds.AT_LEAST_ZERO, "weight of the loss on similarities to prototypes"
]
Flatten = Annotated[
    float, kinds.POSITIVE, "temperature that flattens the shares which blend labels"
]
BlendAfter = Annotated[float, kinds.SHARE, "share of the run before pseudo-labels are blended"]


class DASO(FixMatch):
    """Classes that are predicted often are labelled by similarity to prototypes, rare ones less so.

    q = softmax(cos(f, μ)/T),  μ_c the mean of the last features of class c, by the averaged weights
    p̃ = (1 − υ)·p^w + υ·q^w,   υ = (h_c / max h)^{1/T_h} for c = argmax p^w,  h the shares of ŷ
    L = E[H(y, p(x))] + λ_u·E[w·m·H(ŷ, p^s)] + λ_q·E[H(q^w, q^s)],  ŷ = argmax p̃, m = 1[max p̃ ≥ τ]

    Before `blend_after`, p̃ = p^w and λ_q = 0. Their T_h is 1.5, but 0.3 if labels and pool have
    different shares, which nobody knows in advance. The published code counts h anew every 100
    steps; here it is a running mean. `parity="usb"` changes nothing.
    """

    compiles = False
    bank: Tensor  # (C·rows, width) features by class, zeros where none was written
    seen: Tensor  # (C,) features of each class so far

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        temperature: kinds.SimilarityTemperature = 0.05,  # T, all as in their code
        flatten: Flatten = 1.5,  # T_h
        lambda_assign: AssignWeight = 1.0,  # λ_q
        rows: Rows = 256,
        blend_after: BlendAfter = 0.02,  # their 5,000 of 250,000 steps
        momentum: kinds.Momentum = 0.99,
        ema: kinds.WeightMomentum = 0.999,
        **fixmatch: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, ema=ema, **fixmatch)
        self.temperature, self.flatten, self.rows = temperature, flatten, rows
        self.lambda_assign, self.blend_after = lambda_assign, blend_after
        self.shares = Ema(torch.full((task.classes,), 1 / task.classes), momentum)  # h
        self.register_buffer("bank", torch.zeros(task.classes * rows, cast(int, net.width)))
        self.register_buffer("seen", torch.zeros(task.classes, dtype=torch.int64))

    def forward(self, batch: Batch) -> Loss:
        teacher = unshifted(self.final)
        with constant_branch(batch.y, teacher) as aside:
            known = aside(lambda: teacher(batch.x[0]).features)
            x, weak, strong = self.predict(*batch.x, *batch.u, constant=1)
        self.remember_(dist.gather(known), dist.gather(batch.y))
        late = (batch.progress >= self.blend_after).float()
        with without_autocast(batch.y.device):  # similarities divided by a small T
            q, likeness = self.likeness(weak).softmax(-1).detach(), self.likeness(strong)
        p = self.blended(weak.logits.detach().softmax(-1), q, late)
        tiny = torch.finfo(p.dtype).tiny
        pseudo = self.labeler(p.clamp(min=tiny).log(), x.logits.detach(), batch.id_u)
        self.shares.update_(dist.mean_(one_hot(pseudo.label, self.task.classes).double().mean(0)))
        sup = each_ce(x.logits, batch.y).mean()
        unsup, assign = pseudo.loss(strong.logits), late * each_ce(likeness, q).mean()
        terms = {"sup": sup, "unsup": unsup, "assign": assign}
        parts = {name: term.detach() for name, term in terms.items()}
        total = sup + self.lambda_u * unsup + self.lambda_assign * assign
        return Loss(total, {**parts, **self.labeler.report(pseudo)})

    def likeness(self, out: Out) -> Tensor:
        """cos(f, μ)/T, (N, C)."""
        written = self.seen.clamp(min=1, max=self.rows)
        means = self.bank.view(len(self.seen), self.rows, -1).sum(1) / written[:, None]
        return F.normalize(out.features, dim=-1) @ F.normalize(means, dim=-1).T / self.temperature

    def blended(self, p: Tensor, q: Tensor, late: Tensor) -> Tensor:
        """p̃: the more, the more often the predicted class is one."""
        share = (self.shares.value / self.shares.value.amax()).pow(1 / self.flatten).float()
        upsilon = late * share[p.argmax(-1), None]
        return (1 - upsilon) * p + upsilon * q

    def remember_(self, features: Tensor, y: Tensor) -> None:
        """Put features into the rings of their classes."""
        earlier = (y[:, None] == y).tril(-1).sum(1)  # of the same class in this batch
        place = (self.seen[y] + earlier) % self.rows
        write_by_id_(self.bank, y * self.rows + place, features)
        self.seen.index_add_(0, y, torch.ones_like(y))
