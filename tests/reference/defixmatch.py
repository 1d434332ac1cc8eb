"""DeFixMatch: FixMatch less the same term on the labelled images, which removes its bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import fixmatch
from .net import NumpyNet
from .primitives import at_least, ce, hard, over_all, softmax
from .records import Calls, Facts, NumpyBatch, Params, Values


class Reference(fixmatch.Reference):
    """L = ½(CE(z_lb, y) + CE(z_lb_s, y)) + 0.5 · (u − anti); it may be negative."""

    x_views = ("weak", "strong")

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        unlabelled_weight: float = 0.5,
    ) -> None:
        super().__init__(params, facts, threshold=threshold, unlabelled_weight=unlabelled_weight)

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        anti = calls["loss"][-1][0][0]
        return {"anti_label": anti.label, "anti_mask": anti.mask}

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.x[0]).logits)
        anti = {"anti_label": hard(p), "anti_mask": at_least(p, self.threshold)}
        return super().targets(batch) | anti

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        strong = NumpyNet(params)(batch.x[1]).logits
        return super().terms(params, batch, values) | {
            "labelled_strong": float(np.mean(ce(strong, batch.y))),
            "anti": over_all(ce(strong, values["anti_label"]), values["anti_mask"]),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        weight = self.unlabelled_weight
        return {"labelled": 0.5, "labelled_strong": 0.5, "unlabelled": weight, "anti": -weight}
