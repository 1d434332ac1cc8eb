"""CDMAD: soft labels from logits minus those of a blank image."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .base import SlowMethod
from .net import NumpyNet
from .primitives import soft_ce, softmax
from .records import Calls, Facts, NumpyBatch, Params, Values


class Reference(SlowMethod):
    """L = CE_lb + λu · mean over two views of H(softmax(z_w − z(blank)), z_s)."""

    u_views = ("weak", "strong", "strong")
    stored: ClassVar = {"bias": "bias"}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        start: float = 0.2,
        unlabelled_weight: float = 1.0,
    ) -> None:
        super().__init__(params, facts)
        self.start, self.unlabelled_weight = start, unlabelled_weight
        self.state["bias"] = np.zeros(facts.classes)

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        return {"target": calls["loss"][-1][0][2]}

    def targets(self, batch: NumpyBatch) -> Values:
        bias = self.net(np.ones((1, *batch.u[0].shape[1:]))).logits[0]
        self.state["bias"] = bias
        weak = self.net(batch.u[0]).logits
        q = softmax(weak - bias if batch.progress >= self.start else weak)
        return {"p": q, "target": q}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        views = [NumpyNet(params)(view).logits for view in batch.u[1:]]
        losses = [float(np.mean(soft_ce(view, values["target"]))) for view in views]
        return {"labelled": self.labelled_ce(params, batch), "unlabelled": sum(losses) / 2}

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return {"labelled": 1.0, "unlabelled": self.unlabelled_weight}
