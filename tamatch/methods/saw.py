"""SAW (Lai et al., ICML 2022): Smoothed Adaptive Weighting."""

import torch
from torch import Tensor, nn

from .. import kinds
from ..losses import each_ce
from ..pseudo import Effective, Part
from ..stats import effective_weights
from ..types import Batch, Loss, Task
from .fixmatch import FixMatch


class SAW(FixMatch):
    """FixMatch with weights by the effective number of images of each class, in both losses.

    L = (1/B) Σ v(y)·H(y, p(x)) + λ_u · (1/Bu) Σ w(ŷ)·m·H(ŷ, p^s),  ŷ and m as in FixMatch,
    v, w ∝ 1/(1−β^n), β = 1−1/n̄, with mean 1 over the classes: v from the labelled counts n, w by
    `pseudo.parts.Effective`.

    The published code counts the labels of the whole pool after each epoch; here they are those of
    the steps' batches, averaged. `parity="usb"` changes nothing.
    """

    weights: Tensor

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        momentum: kinds.Momentum = 0.999,
        weigh: kinds.Weigh | Part = "effective",
        **fixmatch: kinds.Inherited,
    ) -> None:
        tuned = {"effective": Effective(task, momentum)}
        super().__init__(net, task, weigh=weigh, tuned=tuned, **fixmatch)
        counts = task.labelled * torch.tensor(task.labelled_shares, dtype=torch.float64)
        self.register_buffer("weights", effective_weights(counts).float())

    def forward(self, batch: Batch) -> Loss:
        x, weak, strong = self.predict(*batch.x, *batch.u, constant=1)
        pseudo = self.labeler(weak.logits.detach(), x.logits.detach(), batch.id_u)
        sup = (self.weights[batch.y] * each_ce(x.logits, batch.y)).mean()
        unsup = pseudo.loss(strong.logits)
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), **self.labeler.report(pseudo)}
        return Loss(sup + self.lambda_u * unsup, parts)
