"""SimPro: logit adjustment by the class shares of all that is learnt from, estimated by EM."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .base import SlowMethod
from .net import NumpyNet
from .primitives import at_least, ce, moved, over_all, soft_ce, softmax
from .records import Calls, Facts, NumpyBatch, Params, Values

EPSILON = 1e-6


class Reference(SlowMethod):
    """L = λ_x · CE(z_x + κ log π, y) + mean(mask · H(q, z_s + κ log π)), over two views each."""

    x_views = ("weak", "strong")
    u_views = ("weak", "strong", "strong")
    stored: ClassVar = {"pool": "pool.value", "whole": "whole.value"}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        strength: float = 2.0,
        momentum: float = 0.999,
    ) -> None:
        super().__init__(params, facts)
        self.threshold, self.strength, self.momentum = threshold, strength, momentum
        self.state["pool"] = np.full(facts.classes, 1 / facts.classes)
        self.state["whole"] = np.array(facts.labelled_shares)

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        return {"target": calls["loss"][-1][0][2]}

    def targets(self, batch: NumpyBatch) -> Values:
        prior = self.strength * np.log(self.state["whole"] + EPSILON)
        pool = self.strength * np.log(self.state["pool"] + EPSILON)
        q = softmax(self.net(batch.u[0]).logits + pool)
        mask = at_least(q, self.threshold)
        accepted = (mask[:, None] * q).sum(axis=0)
        labels = np.bincount(batch.y, minlength=self.facts.classes)
        if accepted.any():
            share = accepted / accepted.sum()
            self.state["pool"] = moved(self.state["pool"], share, self.momentum)
        both = accepted + labels
        self.state["whole"] = moved(self.state["whole"], both / both.sum(), self.momentum)
        return {"p": q, "target": q, "mask": mask, "adjust_x": prior}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        net, prior = NumpyNet(params), values["adjust_x"]
        labelled = [np.mean(ce(net(view).logits + prior, batch.y)) for view in batch.x]
        unlabelled = [
            over_all(soft_ce(net(view).logits + prior, values["target"]), values["mask"])
            for view in batch.u[1:]
        ]
        return {"labelled": float(np.mean(labelled)), "unlabelled": float(np.mean(unlabelled))}

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        facts = self.facts
        ratio = (facts.unlabelled / facts.batch_unlabelled) / (
            facts.labelled / facts.batch_labelled
        )
        return {"labelled": 1 / ratio, "unlabelled": 1.0}
