"""Π-Model: the prediction of one weak view is the target of the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import SlowMethod
from .net import NumpyNet
from .primitives import mse, ramp, softmax
from .records import Array, Calls, Facts, NumpyBatch, Params, Values


class Reference(SlowMethod):
    """L = CE_lb + 10 · R(0.4) · MSE(softmax(z_w2), sg softmax(z_w)), the MSE divided by C."""

    u_views = ("weak", "weak")

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        unlabelled_weight: float = 10.0,
        ramp_share: float = 0.4,
    ) -> None:
        super().__init__(params, facts)
        self.unlabelled_weight = unlabelled_weight
        self.ramp_share = ramp_share

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        return {"target": calls["each_mse"][-1][0][1]}

    def targets(self, batch: NumpyBatch) -> Values:
        return {"target": self.teacher(batch.u[0])}

    def teacher(self, images: Array) -> Array:
        """The predictions that are followed."""
        return softmax(self.net(images).logits)

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        student = NumpyNet(params)(batch.u[1]).logits
        return {
            "labelled": self.labelled_ce(params, batch),
            "unlabelled": float(np.mean(mse(student, values["target"]))),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        rise = ramp(batch.step, self.facts.steps, self.ramp_share)
        return {"labelled": 1.0, "unlabelled": self.unlabelled_weight * rise}
