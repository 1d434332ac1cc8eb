"""SequenceMatch: FixMatch, and each view follows every weaker one."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from . import flexmatch
from .net import NumpyNet
from .primitives import at_least, divergence, hard, over_all, sharpen, softmax
from .records import Array, Calls, Facts, NumpyBatch, Params, Values
from .starts import half_learnt


class Reference(flexmatch.Reference):
    """L = CE_lb + λu · (mean(mask · CE(z_s, ŷ)) + Σ over three pairs of mean(sure · KL(q‖p))).

    The pairs are weak and medium, medium and strong, weak and strong; q is the sharpened prediction
    of the first and sure that it reaches the threshold. With `parity="usb"` mask is FlexMatch's and
    sure, too, and probabilities are sharpened as if they were logits.
    """

    u_views = ("weak", "medium", "strong")
    settings: ClassVar = {
        "other values": {"tau": 0.8, "lambda_u": 2.0, "temperature": 0.8},
        "parity": {"parity": "usb", "temperature": 0.2},
    }
    starts: ClassVar = {"parity": half_learnt}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        tau: float = 0.95,
        lambda_u: float = 1.0,
        temperature: float = 0.5,
        parity: str = "",
    ) -> None:
        super().__init__(params, facts, threshold=tau, unlabelled_weight=lambda_u)
        self.temperature, self.usb = temperature, parity == "usb"
        if not self.usb:
            self.state.clear()

    def remembered(self) -> Values:
        return super().remembered() if self.usb else {}

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        weak, medium, again = (arguments[1] for arguments, _ in calls["each_ce"][-3:])
        assert weak is again
        return {"weak_target": weak, "medium_target": medium}

    def sharp(self, p: Array) -> Array:
        return softmax(p / self.temperature) if self.usb else sharpen(p, self.temperature)

    def targets(self, batch: NumpyBatch) -> Values:
        p, medium = (softmax(self.net(view).logits) for view in batch.u[:2])
        fixed = {"p": p, "label": hard(p), "mask": at_least(p, self.threshold)}
        values = super().targets(batch) if self.usb else fixed
        both = [values["mask"]] * 2
        if not self.usb:
            both = [at_least(q, self.threshold) for q in (p, medium)]
        targets = {"weak_target": self.sharp(p), "medium_target": self.sharp(medium)}
        return {**values, **targets, "kept": np.stack(both)}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        _, medium, strong = (softmax(NumpyNet(params)(view).logits) for view in batch.u)
        from_weak, from_medium = values["kept"]

        def following(q: Array, p: Array, sure: Array) -> float:
            return over_all(np.array([divergence(*pair) for pair in zip(q, p, strict=True)]), sure)

        strongest = NumpyBatch(**{**vars(batch), "u": (batch.u[0], batch.u[2])})
        return super().terms(params, strongest, values) | {
            "sequence": following(values["weak_target"], medium, from_weak)
            + following(values["medium_target"], strong, from_medium)
            + following(values["weak_target"], strong, from_weak)
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return super().factors(batch) | {"sequence": self.unlabelled_weight}
