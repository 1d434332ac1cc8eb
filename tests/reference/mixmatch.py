"""MixMatch: sharpened guesses, then MixUp of everything with everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import SlowMethod
from .net import NumpyNet
from .primitives import mix, mse, one_hot, ramp, sharpen, soft_ce, softmax
from .records import Array, Calls, Draws, Facts, NumpyBatch, Params, Values


def mixed_values(batch: NumpyBatch, images: Array, targets: Array) -> Values:
    """The mixed images and targets; the first B rows are the labelled chunk."""
    lam, order = float(batch.draws["lam"]), batch.draws["perm"]
    return {
        "mixed_images": mix(images, images[order], lam),
        "mixed_targets": mix(targets, targets[order], lam),
    }


def mixup_draws(rng: np.random.Generator, rows: int) -> Values:
    """A Beta draw, and who is mixed with whom."""
    return {"lam": np.array(rng.beta(0.5, 0.5)), "perm": rng.permutation(rows)}


class Reference(SlowMethod):
    """L = softCE(mixed labelled) + λu · R(0.4) · MSE(mixed unlabelled), the MSE divided by C.

    Draws: `lam`, the Beta draw before max(λ, 1 − λ), and `perm`, a permutation of B + 2·Bu rows.
    """

    u_views = ("weak", "weak")

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        unlabelled_weight: float = 10.0,
        temperature: float = 0.5,
        ramp_share: float = 0.4,
    ) -> None:
        super().__init__(params, facts)
        self.unlabelled_weight = unlabelled_weight
        self.temperature = temperature
        self.ramp_share = ramp_share

    @classmethod
    def drawn(cls, rng: np.random.Generator, facts: Facts) -> Values:
        return mixup_draws(rng, facts.batch_labelled + 2 * facts.batch_unlabelled)

    @staticmethod
    def handed(draws: Draws, tensor: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        pair = tensor(max(draws["lam"], 1 - draws["lam"])), tensor(draws["perm"])
        return {"mixing.mixup_draw": lambda *_: pair}

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        images, targets = (mixed for _, mixed in calls["__call__"][-2:])
        mixed = {"mixed_images": images, "mixed_targets": targets}
        return {"target": calls["sharpen"][-1][1], **mixed}

    def targets(self, batch: NumpyBatch) -> Values:
        weak, second = batch.u
        average = (softmax(self.net(weak).logits) + softmax(self.net(second).logits)) / 2
        q = sharpen(average, self.temperature)
        images = np.concatenate([batch.x[0], weak, second])
        targets = np.concatenate([one_hot(batch.y, self.facts.classes), q, q])
        return {"p": average, "target": q} | mixed_values(batch, images, targets)

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        logits = NumpyNet(params)(values["mixed_images"]).logits
        goals, size = values["mixed_targets"], len(batch.y)
        return {
            "labelled": float(np.mean(soft_ce(logits[:size], goals[:size]))),
            "unlabelled": float(np.mean(mse(logits[size:], goals[size:]))),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        rise = ramp(batch.step, self.facts.steps, self.ramp_share)
        return {"labelled": 1.0, "unlabelled": self.unlabelled_weight * rise}
