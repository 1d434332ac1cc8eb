"""ABC: FixMatch on a second head, and a balanced loss on the net's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .masked import HardLabels
from .net import CLASSES, WIDTH, NumpyNet, linear, linear_shapes
from .primitives import at_least, ce, hard, over_all, softmax
from .records import Calls, Draws, Facts, NumpyBatch, Params, Values


class Reference(HardLabels):
    """L = FixMatch(second head) + mean(b · CE(z_x, y)) + mean(b' · mask · CE(z_s, ŷ))."""

    heads = linear_shapes("second", WIDTH, CLASSES)

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        unlabelled_weight: float = 1.0,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold = threshold
        self.keep = min(facts.labelled_shares) / np.array(facts.labelled_shares)

    @classmethod
    def drawn(cls, rng: np.random.Generator, facts: Facts) -> Values:
        sizes = {"lots_x": facts.batch_labelled, "lots_u": facts.batch_unlabelled}
        return {name: rng.random(size) for name, size in sizes.items()}

    @staticmethod
    def handed(draws: Draws, tensor: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        lots = [tensor(draws[name]) for name in ("lots_u", "lots_x")]
        return {"abc.lots": lambda count, device: lots.pop(0)}

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        other = calls["loss"][-1][0][0]  # the labels of the head that is not reported
        return {"other_label": other.label, "other_mask": other.mask}

    def targets(self, batch: NumpyBatch) -> Values:
        weak = self.net(batch.u[0])
        p, own = softmax(linear(self.params, "second", weak.features)), softmax(weak.logits)
        label = hard(own)
        chance = 1 - batch.progress * (1 - self.keep[label])
        drawn = batch.draws["lots_u"] < chance
        return {
            "p": p,
            "label": hard(p),
            "mask": at_least(p, self.threshold),
            "other_label": label,
            "other_mask": at_least(own, self.threshold) * drawn,
            "kept": (batch.draws["lots_x"] < self.keep[batch.y]).astype(np.float64),
        }

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        x, strong = NumpyNet(params)(batch.x[0]), NumpyNet(params)(batch.u[1])
        plain_x = ce(linear(params, "second", x.features), batch.y)
        plain_u = ce(linear(params, "second", strong.features), values["label"])
        own_x = over_all(ce(x.logits, batch.y), values["kept"])
        own_u = over_all(ce(strong.logits, values["other_label"]), values["other_mask"])
        return {
            "labelled": float(np.mean(plain_x)),
            "unlabelled": over_all(plain_u, values["mask"]),
            "balanced": own_x + own_u,
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return {**super().factors(batch), "balanced": 1.0}
