"""Π-Model (Laine and Aila, 2017, arXiv:1610.02242; Rasmus et al., 2015, arXiv:1507.02672)."""

from torch import nn

from .. import kinds
from ..losses import each_ce, each_mse, ramp
from ..types import Batch, Loss, Task, Views
from .base import Method, constant_branch, frozen_norm


class PiModel(Method):
    """Two weak views of an image must be predicted alike.

    L = (1/B) Σ H(y, p(x)) + λ_u·R(κ) · (1/Bu) Σ (1/C)‖p(w₂) − sg p(w₁)‖²,  R(κ) rises from 0 to 1
    over the first κ of the run. `parity="usb"` changes nothing.
    """

    views = Views(u=("weak", "weak"))

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_u: kinds.LambdaU = 10.0,  # the benchmark's
        rampup: kinds.Rampup = 0.4,  # the benchmark's κ
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.lambda_u, self.rampup = lambda_u, rampup

    def forward(self, batch: Batch) -> Loss:
        (x,) = self.predict(*batch.x)
        first, second = batch.u
        with frozen_norm(self.net), constant_branch(batch.y, self.net) as aside:
            q = aside(lambda: self.net(first).logits.softmax(-1))
            p = self.net(second).logits.softmax(-1)
        sup = each_ce(x.logits, batch.y).mean()
        unsup = each_mse(p, q).mean()
        total = sup + self.lambda_u * ramp(batch.progress, self.rampup) * unsup
        return Loss(total, {"sup": sup.detach(), "unsup": unsup.detach()})
