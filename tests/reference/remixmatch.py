"""ReMixMatch: aligned and sharpened guesses, MixUp with strong views, and rotation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from . import mixmatch
from .alignment import follow_model, rescaled
from .base import SlowMethod
from .net import WIDTH, NumpyNet, linear, linear_shapes
from .primitives import ce, one_hot, ramp, sharpen, soft_ce, softmax, turn
from .records import Draws, Facts, NumpyBatch, Params, Values


class Reference(SlowMethod):
    """L = softCE(chunk 0) + R·1.5·softCE(rest) + R·0.5·softCE(z_s0, q) + 0.5·CE(rotation).

    R = R(1/64). Views of u: weak, s0, s1; the rotated s0 is made here. Draws: `lam` (before the
    maximum), `perm` of B + 3·Bu rows, `rotation` (Bu,) quarter turns, counter-clockwise.
    """

    u_views = ("weak", "strong", "strong")
    heads = linear_shapes("rotation", WIDTH, 4)
    stored: ClassVar = {"p_model": "status.model.value", "p_target": "status.target.value"}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        unlabelled_weight: float = 1.5,
        unmixed_weight: float = 0.5,
        rotation_weight: float = 0.5,
        temperature: float = 0.5,
        momentum: float = 0.999,
        ramp_share: float = 1 / 64,
    ) -> None:
        super().__init__(params, facts)
        self.unlabelled_weight = unlabelled_weight
        self.unmixed_weight = unmixed_weight
        self.rotation_weight = rotation_weight
        self.temperature = temperature
        self.momentum = momentum
        self.ramp_share = ramp_share
        self.state["p_target"] = np.array(facts.labelled_shares)

    @classmethod
    def drawn(cls, rng: np.random.Generator, facts: Facts) -> Values:
        quarters = rng.integers(4, size=facts.batch_unlabelled)
        rows = facts.batch_labelled + 3 * facts.batch_unlabelled
        return {**mixmatch.mixup_draws(rng, rows), "rotation": quarters}

    @staticmethod
    def handed(draws: Draws, tensor: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        turn = tensor(draws["rotation"])
        mixed = mixmatch.Reference.handed(draws, tensor)
        return {**mixed, "remixmatch.turn_draw": lambda *_: turn}

    observed = staticmethod(mixmatch.Reference.observed)

    def targets(self, batch: NumpyBatch) -> Values:
        weak, s0, s1 = batch.u
        p = softmax(self.net(weak).logits)
        follow_model(self.state, p, self.momentum)
        aligned = rescaled(p, self.state["p_model"], self.state["p_target"])
        q = sharpen(aligned, self.temperature)
        images = np.concatenate([batch.x[0], s0, s1, weak])
        targets = np.concatenate([one_hot(batch.y, self.facts.classes), q, q, q])
        return {"p": p, "aligned": aligned, "target": q} | mixmatch.mixed_values(
            batch, images, targets
        )

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        net, s0 = NumpyNet(params), batch.u[1]
        mixed = net(values["mixed_images"]).logits
        goals, size = values["mixed_targets"], len(batch.y)
        quarters = batch.draws["rotation"]
        turned = np.stack([turn(image, int(k)) for image, k in zip(s0, quarters, strict=True)])
        rotation = linear(params, "rotation", net(turned).features)
        return {
            "labelled": float(np.mean(soft_ce(mixed[:size], goals[:size]))),
            "unlabelled": float(np.mean(soft_ce(mixed[size:], goals[size:]))),
            "unmixed": float(np.mean(soft_ce(net(s0).logits, values["target"]))),
            "rotation": float(np.mean(ce(rotation, quarters))),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        rise = ramp(batch.step, self.facts.steps, self.ramp_share)
        return {
            "labelled": 1.0,
            "unlabelled": self.unlabelled_weight * rise,
            "unmixed": self.unmixed_weight * rise,
            "rotation": self.rotation_weight,
        }
