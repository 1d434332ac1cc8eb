"""Pseudo-Labeling (Lee, 2013, ICML workshop on challenges in representation learning)."""

from torch import nn

from .. import kinds
from ..losses import each_ce, ramp
from ..types import Batch, Loss, Task, Views
from .base import frozen_norm
from .fixmatch import FixMatch


class PseudoLabel(FixMatch):
    """The net's confident predictions are taken as labels of the very views they came from.

    L = E[H(y, p(x))] + λ_u·R·E[m·H(ŷ, p^w)],  ŷ = argmax p^w,  m = 1[max p^w ≥ τ], and R grows
    from 0 to 1 over the first κ of the run. `parity="usb"` changes nothing.
    """

    views = Views(u=("weak",))
    compiles = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        rampup: kinds.Rampup = 0.4,  # κ; this, τ = 0.95 and λ_u = 1 are the benchmark's
        **fixmatch: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **fixmatch)
        self.rampup = rampup

    def forward(self, batch: Batch) -> Loss:
        (x,) = self.predict(*batch.x)
        with frozen_norm(self.net):
            (weak,) = self.predict(*batch.u)
        pseudo = self.labeler(weak.logits.detach(), x.logits.detach(), batch.id_u)
        sup = each_ce(x.logits, batch.y).mean()
        unsup = pseudo.loss(weak.logits)
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), **self.labeler.report(pseudo)}
        return Loss(sup + self.lambda_u * ramp(batch.progress, self.rampup) * unsup, parts)
