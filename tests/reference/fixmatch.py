"""FixMatch: mask = 1[max p_w ≥ 0.95], ŷ = argmax p_w."""

from __future__ import annotations

from .masked import HardLabels
from .primitives import at_least, hard, softmax
from .records import Facts, NumpyBatch, Params, Values


class Reference(HardLabels):
    """L = CE_lb + mean(mask · CE(z_s, ŷ))."""

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        unlabelled_weight: float = 1.0,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold = threshold

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        return {"p": p, "label": hard(p), "mask": at_least(p, self.threshold)}
