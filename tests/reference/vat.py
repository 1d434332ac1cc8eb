"""VAT: the prediction must not change along the direction that changes it most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import SlowMethod
from .net import NumpyNet
from .primitives import divergence, entropy, ramp, softmax
from .records import Array, Calls, Draws, Facts, NumpyBatch, Params, Values


def unit_images(images: Array) -> Array:
    """Each image divided by its length over channels and pixels (+1e-16)."""
    return np.stack([image / (np.sqrt((image**2).sum()) + 1e-16) for image in images])


class Reference(SlowMethod):
    """L = CE_lb + R(0.4) · KL(sg q‖p(w + r)) + 0.06 · mean H(p_w), r = ε · (one power iteration).

    Draws: `d`, standard normal, in the shape of the weak view. The entropy term has no ramp.
    """

    u_views = ("weak",)

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        unlabelled_weight: float = 1.0,
        ramp_share: float = 0.4,
        epsilon: float = 6.0,
        xi: float = 1e-6,
        entropy_weight: float = 0.06,
    ) -> None:
        super().__init__(params, facts)
        self.unlabelled_weight = unlabelled_weight
        self.ramp_share = ramp_share
        self.epsilon = epsilon
        self.xi = xi
        self.entropy_weight = entropy_weight

    @classmethod
    def drawn(cls, rng: np.random.Generator, facts: Facts) -> Values:
        return {"d": rng.normal(size=(facts.batch_unlabelled, 3, 4, 4))}

    @staticmethod
    def handed(draws: Draws, tensor: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        noise = tensor(draws["d"])
        return {"vat.direction_draw": lambda images: noise}

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        (_, q), r = calls["perturbation"][-1]
        return {"target": q, "perturbation": r}

    def targets(self, batch: NumpyBatch) -> Values:
        weak = batch.u[0]
        net = NumpyNet(self.params)
        q = softmax(net(weak).logits)
        moved_by = self.xi * unit_images(batch.draws["d"])
        # d/dz of the batch mean of KL(q‖softmax z) is (softmax z − q) / N.
        slope = (softmax(net(weak + moved_by).logits) - q) / len(weak)
        direction = unit_images(net.pull_back(weak + moved_by, slope))
        return {"target": q, "perturbation": self.epsilon * direction}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        net, weak = NumpyNet(params), batch.u[0]
        p = softmax(net(weak).logits)
        far = softmax(net(weak + values["perturbation"]).logits)
        pairs = zip(values["target"], far, strict=True)
        return {
            "labelled": self.labelled_ce(params, batch),
            "unlabelled": float(np.mean([divergence(q, row) for q, row in pairs])),
            "entropy": float(np.mean([entropy(row) for row in p])),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        rise = ramp(batch.step, self.facts.steps, self.ramp_share)
        return {
            "labelled": 1.0,
            "unlabelled": self.unlabelled_weight * rise,
            "entropy": self.entropy_weight,
        }
