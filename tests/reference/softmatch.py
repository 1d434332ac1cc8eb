"""SoftMatch: every sample counts, by how far its confidence lies under the mean."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from .alignment import follow_model, rescaled
from .masked import HardLabels
from .primitives import hard, moved, softmax
from .records import Facts, NumpyBatch, Params, Values


class Reference(HardLabels):
    """weight = exp(−min(max p̃ − μ̂, 0)² / (2σ̂² / n_σ²)), n_σ = 2; ŷ = argmax of the raw p_w.

    p̃ is aligned to uniform. State, moved before use: `p_model`, `mean` μ̂ from 1/C, `variance` σ̂²
    from 1 (unbiased). `observe="raw"` moves μ̂ and σ̂² by max p_w instead of max p̃. With
    `parity="usb"` p̃ passes a second softmax before everything that reads its maximum.
    """

    stored: ClassVar = {
        "p_model": "labeler.status.model.value",
        "mean": "labeler.weigh.mean.value",
        "variance": "labeler.weigh.variance.value",
    }

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        sigmas: float = 2.0,
        momentum: float = 0.999,
        unlabelled_weight: float = 1.0,
        observe: str = "aligned",
        parity: str = "",
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.sigmas = sigmas
        self.momentum = momentum
        self.observe = observe
        self.parity = parity
        self.state["mean"] = np.array(1 / facts.classes)
        self.state["variance"] = np.array(1.0)

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        follow_model(self.state, p, self.momentum)
        uniform = np.full(self.facts.classes, 1 / self.facts.classes)
        aligned = rescaled(p, self.state["p_model"], uniform)
        read = softmax(aligned) if self.parity == "usb" else aligned
        confidence = np.array([row.max() for row in read])
        seen = np.array([row.max() for row in p]) if self.observe == "raw" else confidence
        mean = moved(self.state["mean"], np.array(seen.mean()), self.momentum)
        variance = moved(self.state["variance"], np.array(seen.var(ddof=1)), self.momentum)
        self.state.update(mean=mean, variance=variance)
        spread = 2 * float(variance) / self.sigmas**2
        weight = np.array([math.exp(-(min(c - float(mean), 0) ** 2) / spread) for c in confidence])
        return {"p": p, "aligned": aligned, "label": hard(p), "weight": weight}
