"""Pseudo-Labeling: the weak view teaches itself."""

from __future__ import annotations

from .base import SlowMethod
from .net import NumpyNet
from .primitives import at_least, ce, hard, over_all, ramp, softmax
from .records import Facts, NumpyBatch, Params, Values


class Reference(SlowMethod):
    """L = CE_lb + λu · R(0.4) · mean(mask · CE(z_w, ŷ)), mask = 1[max p_w ≥ 0.95]."""

    u_views = ("weak",)

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        unlabelled_weight: float = 1.0,
        ramp_share: float = 0.4,
    ) -> None:
        super().__init__(params, facts)
        self.threshold = threshold
        self.unlabelled_weight = unlabelled_weight
        self.ramp_share = ramp_share

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        return {"p": p, "label": hard(p), "mask": at_least(p, self.threshold)}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        losses = ce(NumpyNet(params)(batch.u[0]).logits, values["label"])
        return {
            "labelled": self.labelled_ce(params, batch),
            "unlabelled": over_all(losses, values["mask"]),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        rise = ramp(batch.step, self.facts.steps, self.ramp_share)
        return {"labelled": 1.0, "unlabelled": self.unlabelled_weight * rise}
