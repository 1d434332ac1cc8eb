"""Your own method in one file: FixMatch with a threshold that rises during the run.

tamatch train --method examples/own_method.py:Rising --tau-start 0.6
"""

from __future__ import annotations

from typing import Annotated, Any

from torch import nn

import tamatch
from tamatch.kinds import FRACTION, LambdaU, Tau
from tamatch.losses import each_ce
from tamatch.types import Batch, Loss, Task


class Rising(tamatch.Method):
    """m = 1[max p^w ≥ τ(t)], τ(t) rising from `tau_start` to `tau` over the run."""

    def __init__(
        self, net: nn.Module, task: Task, *,
        tau: Tau = 0.95,
        tau_start: Annotated[float, FRACTION, "threshold at the first step"] = 0.7,
        lambda_u: LambdaU = 1.0,
        **base: Any,
    ) -> None:  # fmt: skip
        super().__init__(net, task, **base)
        self.first, self.last, self.lambda_u = tau_start, tau, lambda_u

    def forward(self, batch: Batch) -> Loss:
        x, weak, strong = self.predict(*batch.x, *batch.u, constant=1)
        confidence, label = weak.logits.detach().softmax(-1).max(-1)
        mask = (confidence >= self.first + (self.last - self.first) * batch.progress).float()
        sup = each_ce(x.logits, batch.y).mean()
        unsup = (mask * each_ce(strong.logits, label)).mean()
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), "used": mask.mean()}
        return Loss(sup + self.lambda_u * unsup, parts)
