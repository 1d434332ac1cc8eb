"""FreeMatch: a threshold that follows the confidence, per class, and a fairness term."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from .masked import HardLabels
from .net import NumpyNet
from .primitives import at_least, hard, histogram, mean_row, moved, softmax
from .records import Array, Facts, NumpyBatch, Params, Values


def shares(p: Array, counts: Array) -> Array:
    """p / counts, a division by zero giving 0, divided by its sum."""
    each = np.array([a / b if b > 0 else 0.0 for a, b in zip(p, counts, strict=True)])
    return np.array([v / each.sum() for v in each])


class Reference(HardLabels):
    """L = CE_lb + mean(mask · CE(z_s, ŷ)) + 0.001 · L_f, mask = 1[max p ≥ τ · p̃_c / max p̃].

    L_f = Σ_c P_c log(Q_c + 1e-12) over the accepted strong predictions, 0 if none is accepted.
    State, moved before use: `threshold` τ, `class_means` p̃, `class_counts` h̃, all from 1/C.
    With `parity="usb"` they start at 1, and L_f picks its rows by the mask as a number: row 1 for
    every accepted sample and row 0 for every other one.
    """

    stored: ClassVar = {
        "threshold": "labeler.select.threshold.value",
        "class_means": "labeler.select.shares.value",
        "class_means of fairness": "fairness.shares.value",
        "class_counts": "fairness.histogram.value",
    }

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        momentum: float = 0.999,
        fairness_weight: float = 0.001,
        unlabelled_weight: float = 1.0,
        init_threshold: float | None = None,
        parity: str = "",
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.momentum = momentum
        self.fairness_weight = fairness_weight
        self.parity = parity
        start = 1.0 if parity == "usb" else 1 / facts.classes
        self.state["threshold"] = np.array(start if init_threshold is None else init_threshold)
        self.state["class_means"] = np.full(facts.classes, start)
        self.state["class_counts"] = np.full(facts.classes, start)

    def remembered(self) -> Values:
        """The method keeps the means twice."""
        return {**self.state, "class_means of fairness": self.state["class_means"]}

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        label, confidence = hard(p), np.array([row.max() for row in p])
        m, state = self.momentum, self.state
        tau = moved(state["threshold"], np.array(confidence.mean()), m)
        means = moved(state["class_means"], mean_row(p), m)
        counts = moved(state["class_counts"], histogram(label, self.facts.classes), m)
        self.state.update(threshold=tau, class_means=means, class_counts=counts)
        taus = np.array([float(tau) * means[c] / means.max() for c in label])
        mask = at_least(p, taus)
        rows = mask.astype(np.int64) if self.parity == "usb" else np.flatnonzero(mask)
        chosen = rows if mask.any() else rows[:0]
        strong = hard(softmax(self.net(batch.u[1][chosen]).logits)) if len(chosen) else chosen
        return {
            "p": p,
            "label": label,
            "threshold": taus,
            "mask": mask,
            "fair_target": shares(means, counts),
            "fair_rows": chosen,
            "fair_labels": strong,
        }

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        parts = super().terms(params, batch, values)
        rows = values["fair_rows"]
        if len(rows) == 0:
            return parts | {"fairness": 0.0}
        mean = mean_row(softmax(NumpyNet(params)(batch.u[1][rows]).logits))
        q = shares(mean, histogram(values["fair_labels"], self.facts.classes))
        pairs = zip(values["fair_target"], q, strict=True)
        return parts | {"fairness": sum(a * math.log(b + 1e-12) for a, b in pairs)}

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return super().factors(batch) | {"fairness": self.fairness_weight}
