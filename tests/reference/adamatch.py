"""AdaMatch: aligned to the labelled predictions, with a threshold relative to their confidence."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .alignment import follow_model, rescaled
from .masked import HardLabels
from .primitives import at_least, hard, mean_row, moved, softmax
from .records import Facts, NumpyBatch, Params, Values


class Reference(HardLabels):
    """mask = 1[max p̃ ≥ 0.95 · mean_i max p_lb,i], ŷ = argmax p̃."""

    stored: ClassVar = {
        "p_model": "labeler.status.model.value",
        "p_target": "labeler.status.target.value",
    }

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
        self.threshold = threshold
        self.momentum = momentum
        self.state["p_target"] = np.full(facts.classes, 1 / facts.classes)

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        p_labelled = softmax(self.net(batch.x[0]).logits)
        follow_model(self.state, p, self.momentum)
        self.state["p_target"] = moved(self.state["p_target"], mean_row(p_labelled), self.momentum)
        aligned = rescaled(p, self.state["p_model"], self.state["p_target"])
        tau = self.threshold * float(np.mean([row.max() for row in p_labelled]))
        return {
            "p": p,
            "aligned": aligned,
            "threshold": np.array(tau),
            "label": hard(aligned),
            "mask": at_least(aligned, tau),
        }
