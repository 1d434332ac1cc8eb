"""TaMatch: predictions rescaled and weighted by r = p_target / p_model, and its ablations."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from .masked import HardLabels
from .primitives import (
    at_least,
    divergence,
    entropy,
    hard,
    mean_row,
    moved,
    normalise,
    softmax,
)
from .records import Array, Facts, NumpyBatch, Params, Values

Clip = Literal["upward", "symmetric", "none"]


def ratio(model: Array, target: Array, epsilon: float = 1e-6) -> Array:
    """r = (p_target + ε) / (p_model + ε)."""
    return (target + epsilon) / (model + epsilon)


def upper_bound(model: Array, target: Array) -> float:
    """r_max = 1 + KL[p_model‖p_target] / (H(p_model) / C), with KL ≥ 0 and H ≥ 1e-12."""
    kl = max(0.0, divergence(model, target))
    return 1 + kl / (max(entropy(model), 1e-12) / len(model))


def clipped(r: Array, r_max: float, clip: Clip) -> Array:
    """r held in [1, r_max], in [1/r_max, r_max], or left alone."""
    lower = {"upward": 1.0, "symmetric": 1 / r_max}
    if clip == "none":
        return r
    return np.array([max(lower[clip], min(v, r_max)) for v in r])


class Reference(HardLabels):
    """L = CE_lb + λu · mean(w · mask · CE(z_s, ŷ)).

    Ablations: `rescale=False` (ŷ and mask from p, w still r[ŷ]), `weigh=False` (w = 1),
    `clip="none"` (w = r[ŷ]), `target_momentum=1` (the target stays uniform).
    """

    stored: ClassVar = {
        "p_model": "labeler.status.model.value",
        "p_target": "labeler.status.target.value",
    }

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        model_momentum: float = 0.999,
        target_momentum: float = 1.0,
        epsilon: float = 1e-6,
        rescale: bool = True,
        weigh: bool = True,
        clip: Clip = "upward",
        unlabelled_weight: float = 1.0,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold = threshold
        self.model_momentum = model_momentum
        self.target_momentum = target_momentum
        self.epsilon = epsilon
        self.rescale = rescale
        self.weigh = weigh
        self.clip: Clip = clip
        for name in ("p_model", "p_target"):
            self.state[name] = np.full(facts.classes, 1 / facts.classes)

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        model = moved(self.state["p_model"], mean_row(p), self.model_momentum)
        target = self.state["p_target"]
        if self.target_momentum < 1:
            target = moved(target, model, self.target_momentum)
        self.state.update(p_model=model, p_target=target)

        r = ratio(model, target, self.epsilon)
        rescaled = normalise(p * r)
        guess = rescaled if self.rescale else p
        label = hard(guess)
        r_max = upper_bound(model, target)
        weight = clipped(r, r_max, self.clip)[label] if self.weigh else np.ones(len(p))
        return {
            "p": p,
            "aligned": rescaled,
            "ratio": r,
            "r_max": np.array(r_max),
            "label": label,
            "mask": at_least(guess, self.threshold),
            "weight": weight,
        }
