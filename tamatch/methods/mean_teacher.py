"""Mean Teacher (Tarvainen and Valpola, 2017, arXiv:1703.01780)."""

from torch import nn

from .. import kinds
from ..errors import UsageError
from ..losses import each_ce, each_mse, ramp
from ..types import Batch, Loss, Task, Views
from .base import Method, constant_branch, frozen_norm


class MeanTeacher(Method):
    """The running average of the weights teaches the weights.

    L = (1/B) Σ H(y, p(x)) + λ_u·R(κ) · (1/Bu) Σ (1/C)‖p(w₂) − p′(w₁)‖²,  p′ by the average θ′ of θ.
    `parity="usb"`: the published code compared the teacher with itself, a term that is zero.
    """

    views = Views(u=("weak", "weak"))

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_u: kinds.LambdaU = 50.0,  # the benchmark's
        rampup: kinds.Rampup = 0.4,  # the benchmark's κ
        ema: kinds.WeightMomentum = 0.999,  # their α
        **base: kinds.Inherited,
    ) -> None:
        if ema == 0:
            raise UsageError("--ema 0 leaves Mean Teacher without its teacher: try --ema 0.999.")
        super().__init__(net, task, ema=ema, **base)
        self.lambda_u, self.rampup = lambda_u, rampup

    def forward(self, batch: Batch) -> Loss:
        (x,) = self.predict(*batch.x)
        teacher, first, second = self.final, *batch.u
        with frozen_norm(self.net), constant_branch(batch.y, teacher) as aside:
            q = aside(lambda: teacher(first).logits.softmax(-1))
            p = q if self.parity == "usb" else self.net(second).logits.softmax(-1)
        sup = each_ce(x.logits, batch.y).mean()
        unsup = each_mse(p, q).mean()
        total = sup + self.lambda_u * ramp(batch.progress, self.rampup) * unsup
        return Loss(total, {"sup": sup.detach(), "unsup": unsup.detach()})
