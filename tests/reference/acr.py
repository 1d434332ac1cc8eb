"""ACR: two heads, labelled by the plain one with fixed and with adaptive logit adjustment."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .masked import HardLabels
from .net import CLASSES, WIDTH, NumpyNet, linear, linear_shapes
from .primitives import at_least, ce, divergence, hard, moved, over_all, softmax
from .records import Array, Calls, Facts, NumpyBatch, Params, Values

EPSILON = 1e-6


def reversed_ranks(shares: Array) -> Array:
    """The largest share for the rarest class, and so on; of equals the first is the rarer."""
    ascending = np.argsort(shares, kind="stable")
    out = np.empty_like(shares)
    out[ascending] = np.sort(shares)[::-1]
    return out


class Reference(HardLabels):
    """L = CE(g_x, y) + CE(z_x + κ log π, y) + λu · Σ over heads of mean(mask · CE(strong, ŷ))."""

    u_views = ("weak", "strong", "strong")
    heads = linear_shapes("second", WIDTH, CLASSES)
    stored: ClassVar = {"shares": "shares.value"}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        strength: float = 2.0,
        momentum: float = 0.999,
        unlabelled_weight: float = 1.0,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold, self.strength, self.momentum = threshold, strength, momentum
        self.shares = np.array(facts.labelled_shares)
        self.prior = np.log(self.shares + EPSILON)
        self.state["shares"] = np.full(facts.classes, 1 / facts.classes)

    def adaptive(self, progress: float) -> float:
        """κ_t = κ · exp d₁ / Σ exp d."""
        if progress < 0.01:
            return self.strength
        pool = self.state["shares"] + EPSILON
        uniform = np.full(len(pool), 1 / len(pool))
        away = []
        for anchor in (self.shares, uniform, reversed_ranks(self.shares)):
            other = anchor + EPSILON
            there, back = divergence(pool, other), divergence(other, pool)
            away.append((max(0.0, there) + max(0.0, back)) / 2)
        return self.strength * float(np.exp(away[0]) / np.exp(away).sum())

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        other = calls["loss"][-1][0][0]  # the labels of the head that is not reported
        return {"other_label": other.label, "other_mask": other.mask}

    def targets(self, batch: NumpyBatch) -> Values:
        weak = self.net(batch.u[0])
        g, z = linear(self.params, "second", weak.features), weak.logits
        q_g = softmax(g - self.adaptive(batch.progress) * self.prior)
        q_z = softmax(g - self.strength * self.prior)
        sure = at_least(softmax(z), self.threshold)
        found = np.array([sure[hard(z) == c].sum() for c in range(self.facts.classes)])
        if found.any():
            share = found / found.sum()
            self.state["shares"] = moved(self.state["shares"], share, self.momentum)
        return {
            "p": q_z,
            "label": hard(q_z),
            "mask": np.maximum(at_least(q_z, self.threshold), sure),
            "other_label": hard(q_g),
            "other_mask": np.maximum(
                at_least(q_g, self.threshold), at_least(softmax(g), self.threshold)
            ),
        }

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        x = NumpyNet(params)(batch.x[0])
        labelled = ce(x.logits + self.strength * self.prior, batch.y)
        labelled = labelled + ce(linear(params, "second", x.features), batch.y)
        unlabelled = 0.0
        for view in batch.u[1:]:
            strong = NumpyNet(params)(view)
            plain = ce(linear(params, "second", strong.features), values["other_label"])
            unlabelled += over_all(ce(strong.logits, values["label"]), values["mask"]) / 2
            unlabelled += over_all(plain, values["other_mask"]) / 2
        return {"labelled": float(np.mean(labelled)), "unlabelled": unlabelled}
