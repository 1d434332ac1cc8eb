"""DeFixMatch (Schmutz, Humbert and Mattei, 2022, arXiv:2203.07512)."""

from torch import nn

from .. import kinds
from ..losses import each_ce
from ..types import Batch, Loss, Task, Views
from .fixmatch import FixMatch


class DeFixMatch(FixMatch):
    """FixMatch whose unlabelled term is debiased by the same term on the labelled images.

    L = ½E[H(y, p(x)) + H(y, p(x^s))] + λ_u·(E_u[m·H(ŷ, p^s)] − E_x[m·H(ŷ, p^s)]), where ŷ and m
    of a labelled image come from its weak view, not from its label. L can be negative.
    `parity="usb"` changes nothing.
    """

    views = Views(x=("weak", "strong"))
    compiles = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_u: kinds.LambdaU = 0.5,  # their λ
        **fixmatch: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, lambda_u=lambda_u, **fixmatch)

    def forward(self, batch: Batch) -> Loss:
        x, x_strong, weak, strong = self.predict(*batch.x, *batch.u, constant=2)
        x_weak = x.logits.detach()
        pseudo = self.labeler(weak.logits.detach(), x_weak, batch.id_u)
        pseudo_x = self.labeler(x_weak, x_weak, batch.id_x, learn=False)
        sup = (each_ce(x.logits, batch.y) + each_ce(x_strong.logits, batch.y)).mean() / 2
        unsup, anti = pseudo.loss(strong.logits), pseudo_x.loss(x_strong.logits)
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), "anti": anti.detach()}
        total = sup + self.lambda_u * (unsup - anti)
        return Loss(total, {**parts, **self.labeler.report(pseudo)})
