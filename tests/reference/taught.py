"""TaMatch, solved: the strong view learns the classes that a teacher names, as much as it says."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .base import SlowMethod
from .net import NumpyNet
from .primitives import ce, over_all
from .records import Calls, Facts, NumpyBatch, Params, Values


class Reference(SlowMethod):
    """L = CE_lb + λu · mean(amount · CE(z_s, label)).

    State, which a step does not move: `labels` and `amounts` of all images of the pool, here those
    of a teacher at random; some amounts are 0.
    """

    u_views = ("strong",)
    stored: ClassVar = {"labels": "labels", "amounts": "amounts"}

    def __init__(self, params: Params, facts: Facts, *, unlabelled_weight: float = 1.0) -> None:
        super().__init__(params, facts)
        self.unlabelled_weight = unlabelled_weight
        rng = np.random.default_rng(facts.unlabelled)
        self.state["labels"] = rng.integers(facts.classes, size=facts.unlabelled)
        self.state["amounts"] = np.maximum(rng.uniform(-0.5, 1, size=facts.unlabelled), 0)

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        _, label = calls["each_ce"][-1][0]
        return {"label": label}

    def targets(self, batch: NumpyBatch) -> Values:
        label = [self.state["labels"][i] for i in batch.id_u]
        amount = [self.state["amounts"][i] for i in batch.id_u]
        return {"label": np.array(label), "amount": np.array(amount)}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        losses = ce(NumpyNet(params)(batch.u[0]).logits, values["label"])
        return {
            "labelled": self.labelled_ce(params, batch),
            "unlabelled": over_all(losses, values["amount"]),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return {"labelled": 1.0, "unlabelled": self.unlabelled_weight}
