"""InfoMatch: two strong views, CutMix of the weak one, and logits that agree."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .masked import HardLabels
from .net import NumpyNet
from .primitives import at_least, ce, hard, mean_row, moved, one_hot, over_all, soft_ce, softmax
from .records import Array, Calls, Draws, Facts, NumpyBatch, Params, Values
from .starts import well_on


def cut_mix(image: Array, other: Array, lam: float, *centre: float) -> tuple[Array, float]:
    """A rectangle of the other image in this one, and the share of this one that is left."""
    _, height, width = image.shape
    side = math.sqrt(1 - max(lam, 1 - lam))
    half = int(height * side) // 2, int(width * side) // 2
    middle = int(height * centre[0]), int(width * centre[1])
    out, taken = image.copy(), 0
    for i in range(height):
        for j in range(width):
            if all(c - h <= k < c + h for k, c, h in zip((i, j), middle, half, strict=True)):
                out[:, i, j] = other[:, i, j]
                taken += 1
    return out, 1 - taken / (height * width)


def standardised(z: Array) -> Array:
    """Each row less its mean, divided by its standard deviation (ddof = 1)."""
    return np.stack([(row - row.mean()) / row.std(ddof=1) for row in z])


class Reference(HardLabels):
    """L = CE_lb + λu · (mean over two strong views / 2 + CutMix / 2 + λa · MSE of logits).

    mask = 1[max p ≥ τ · p̃_c / max p̃]. State, moved before use: `threshold` τ and `class_means` p̃,
    from 1/C. Draws: `lams`, a Beta draw for each image, `rows` and `columns`, the places of the
    centres as parts of the image, `partners`, a permutation.
    """

    u_views = ("weak", "strong", "strong")
    stored: ClassVar = {
        "threshold": "labeler.select.threshold.value",
        "class_means": "labeler.select.shares.value",
    }
    settings: ClassVar = {
        "well on": {},
        "other values": {"lambda_u": 3.0, "lambda_agreement": 0.5},
    }
    starts: ClassVar = dict.fromkeys(settings, well_on)

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        lambda_u: float = 2.0,
        lambda_agreement: float = 0.001,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=lambda_u)
        self.agreement_weight = lambda_agreement
        self.state["threshold"] = np.array(1 / facts.classes)
        self.state["class_means"] = np.full(facts.classes, 1 / facts.classes)

    @classmethod
    def drawn(cls, rng: np.random.Generator, facts: Facts) -> Values:
        size = facts.batch_unlabelled
        numbers = {name: rng.random(size) for name in ("lams", "rows", "columns")}
        return {**numbers, "partners": rng.permutation(size)}

    @staticmethod
    def handed(draws: Draws, tensor: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        side = np.sqrt(np.minimum(draws["lams"], 1 - draws["lams"]))
        places = (draws[name] for name in ("rows", "columns", "partners"))
        drawn = tuple(map(tensor, (side, *places)))
        return {"infomatch.cut_draw": lambda *_: drawn}

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        cut, (_, target) = calls["mix"][-1][1], calls["each_ce"][-1][0]
        return {"mixed_images": cut.images, "mixed_targets": target}

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        label, confidence = hard(p), np.array(np.mean([row.max() for row in p]))
        tau = moved(self.state["threshold"], confidence, 0.999)
        means = moved(self.state["class_means"], mean_row(p), 0.999)
        self.state.update(threshold=tau, class_means=means)
        mask = at_least(p, np.array([float(tau) * means[c] / means.max() for c in label]))
        wanted = mask[:, None] * one_hot(label, self.facts.classes)
        images, goals, draws = [], [], batch.draws
        for i, j in enumerate(draws["partners"]):
            place = (float(draws[name][i]) for name in ("lams", "rows", "columns"))
            made, left = cut_mix(batch.u[0][i], batch.u[0][j], *place)
            images.append(made)
            goals.append(left * wanted[i] + (1 - left) * wanted[j])
        mixed = {"mixed_images": np.stack(images), "mixed_targets": np.stack(goals)}
        return {"p": p, "label": label, "mask": mask, **mixed}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        net = NumpyNet(params)
        strong = [net(view).logits for view in batch.u[1:]]
        follow = [over_all(ce(z, values["label"]), values["mask"]) for z in strong]
        mixed = soft_ce(net(values["mixed_images"]).logits, values["mixed_targets"])
        first, second = map(standardised, strong)
        return {
            "labelled": self.labelled_ce(params, batch),
            "unlabelled": sum(follow) / 2,
            "mixed": float(np.mean(mixed)),
            "agreement": float(np.mean((first - second) ** 2)),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        weight = self.unlabelled_weight
        own = {"unlabelled": weight / 2, "mixed": weight / 2}
        return super().factors(batch) | own | {"agreement": weight * self.agreement_weight}
