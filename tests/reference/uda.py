"""UDA: soft, sharpened targets, with no training-signal annealing."""

from __future__ import annotations

from .masked import SoftLabels
from .primitives import at_least, sharpen, softmax
from .records import Facts, NumpyBatch, Params, Values


class Reference(SoftLabels):
    """L = CE_lb + mean(mask · H(p_w^(1/T) normalised, p_s)), mask = 1[max p_w ≥ 0.8], T = 0.4.

    With `parity="usb"` the target is p_w itself.
    """

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.8,
        temperature: float = 0.4,
        unlabelled_weight: float = 1.0,
        parity: str = "",
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold = threshold
        self.temperature = temperature
        self.parity = parity

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        target = p if self.parity == "usb" else sharpen(p, self.temperature)
        return {"p": p, "target": target, "mask": at_least(p, self.threshold)}
