"""SAW: FixMatch with class weights by effective numbers in both losses."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .masked import HardLabels
from .net import NumpyNet
from .primitives import at_least, ce, hard, histogram, moved, softmax
from .records import Array, Facts, NumpyBatch, Params, Values


def effective(counts: Array) -> Array:
    """(1 − β) / (1 − β^n) of each class with β = (n̄ − 1)/n̄, scaled to the sum C."""
    mean = counts.sum() / len(counts)
    beta = (mean - 1) / mean
    weights = np.array([(1 - beta) / (1 - beta**n) for n in counts])
    return weights / weights.sum() * len(counts)


class Reference(HardLabels):
    """L = mean(v[y] · CE) + λu · mean(w[ŷ] · mask · CE(z_s, ŷ))."""

    stored: ClassVar = {"label_shares": "labeler.weigh.shares.value"}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        momentum: float = 0.999,
        unlabelled_weight: float = 1.0,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold, self.momentum = threshold, momentum
        self.state["label_shares"] = np.full(facts.classes, 1 / facts.classes)

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        label = hard(p)
        shares = moved(
            self.state["label_shares"], histogram(label, self.facts.classes), self.momentum
        )
        self.state["label_shares"] = shares
        weights = effective(np.maximum(1, self.facts.unlabelled * shares))
        mask = at_least(p, self.threshold)
        return {"p": p, "label": label, "mask": mask, "weight": weights[label]}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        counts = self.facts.labelled * np.array(self.facts.labelled_shares)
        losses = ce(NumpyNet(params)(batch.x[0]).logits, batch.y)
        labelled = float(np.mean(effective(counts)[batch.y] * losses))
        return {**super().terms(params, batch, values), "labelled": labelled}
