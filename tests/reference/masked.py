"""The loss of the FixMatch family: constants from the weak view, cross-entropy of the strong."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import SlowMethod
from .net import NumpyNet
from .primitives import ce, over_all, soft_ce
from .records import Calls, Facts, NumpyBatch, Params, Values


class HardLabels(SlowMethod):
    """CE_lb + λu · mean(mask · weight · CE(z_s, ŷ)); a method without one of the two has it 1."""

    def __init__(self, params: Params, facts: Facts, *, unlabelled_weight: float = 1.0) -> None:
        super().__init__(params, facts)
        self.unlabelled_weight = unlabelled_weight

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        losses = ce(NumpyNet(params)(batch.u[1]).logits, values["label"])
        ones = np.ones(len(losses))
        factor = values.get("mask", ones) * values.get("weight", ones)
        return {
            "labelled": self.labelled_ce(params, batch),
            "unlabelled": over_all(losses, factor),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return {"labelled": 1.0, "unlabelled": self.unlabelled_weight}


class SoftLabels(HardLabels):
    """CE_lb + λu · mean(mask · H(target, p_s)) with a probability target."""

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        return {"target": calls["loss"][-1][0][2]}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        losses = soft_ce(NumpyNet(params)(batch.u[1]).logits, values["target"])
        return {
            "labelled": self.labelled_ce(params, batch),
            "unlabelled": over_all(losses, values["mask"]),
        }
