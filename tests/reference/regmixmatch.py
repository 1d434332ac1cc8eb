"""RegMixMatch: FreeMatch, and losses on strong views with another image pasted into them."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from . import freematch
from .net import NumpyNet
from .primitives import mse, one_hot, soft_ce
from .records import Array, Calls, Draws, Facts, NumpyBatch, Params, Values
from .starts import well_on


def rectangle(size: int, side: float, centre: float) -> tuple[int, int]:
    """From where to where a box reaches along one axis."""
    half, middle = int(size * side) // 2, int(size * centre)
    return max(middle - half, 0), min(middle + half, size)


def resize_mix(image: Array, other: Array, side: float, centre: Array) -> tuple[Array, float]:
    """The middle 0.9 of `other`, by nearest neighbour, in a box of `image`; what is left of it."""
    _, height, width = image.shape
    top, bottom = rectangle(height, side, centre[0])
    left, right = rectangle(width, side, centre[1])
    rows, columns = int(height * 0.9), int(width * 0.9)
    middle = other[
        :,
        (height - rows) // 2 : (height - rows) // 2 + rows,
        (width - columns) // 2 : (width - columns) // 2 + columns,
    ]
    out = image.copy()
    for i in range(top, bottom):
        for j in range(left, right):
            at = (i - top) * rows // (bottom - top), (j - left) * columns // (right - left)
            out[:, i, j] = middle[:, at[0], at[1]]
    return out, 1 - (bottom - top) * (right - left) / (height * width)


class Reference(freematch.Reference):
    """L = FreeMatch + Σ_sure H(ỹ, p(x̃))/Bu + mean_rest(c³) · mean_rest((1/C)‖p(x̃) − ỹ‖²).

    Draws: `boxes` (2, 3), for the sure ones and for the rest: the Beta draw and the centre;
    `order` (B + Bu,), by whose size the sure ones are permuted; `choice` (Bu, B + Bu), of which the
    largest wins; `any_class`.
    """

    settings: ClassVar = {
        "parity": {"parity": "usb"},
        "other values": {
            "tau_mix": 0.98, "lambda_mix": 0.5, "lambda_cam": 3.0, "lambda_u": 2.0, "lambda_f": 0.5,
            "init_threshold": 0.95,
        },
    }  # fmt: skip
    starts: ClassVar = dict.fromkeys(("default", *settings), well_on)

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        tau_mix: float = 0.999,
        lambda_mix: float = 1.0,
        lambda_cam: float = 1.0,
        lambda_u: float = 1.0,
        lambda_f: float = 0.01,
        **free: Any,
    ) -> None:
        weights = {"unlabelled_weight": lambda_u, "fairness_weight": lambda_f}
        super().__init__(params, facts, **weights, **free)
        self.tau_mix, self.lambda_mix, self.lambda_cam = tau_mix, lambda_mix, lambda_cam

    @classmethod
    def drawn(cls, rng: np.random.Generator, facts: Facts) -> Values:
        size, rows = facts.batch_unlabelled, facts.batch_labelled + facts.batch_unlabelled
        return {
            "boxes": rng.random((2, 3)),
            "order": rng.random(rows),
            "choice": rng.random((size, rows)),
            "any_class": np.array(rng.random() < 0.5),
        }

    @staticmethod
    def handed(draws: Draws, tensor: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        side = tensor(0.1 + 0.7 * np.sqrt(draws["boxes"][:, 0]))
        rest = {name: tensor(draws[name]) for name in ("order", "choice", "any_class")}
        drawn = SimpleNamespace(side=side, centre=tensor(draws["boxes"][:, 1:]), **rest)
        return {"regmixmatch.mix_draw": lambda *_: drawn}

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        images, targets, mask = calls["mix"][-1][1]
        return {"mixed_images": images, "mixed_targets": targets, "mixed_mask": mask}

    def targets(self, batch: NumpyBatch) -> Values:
        values = super().targets(batch)
        size, p, draws = len(batch.y), values["p"], batch.draws
        images = np.concatenate([batch.x[0], batch.u[1]])
        labels = np.concatenate([batch.y, p.argmax(axis=1)])
        sure = [True] * size + [bool(row.max() >= self.tau_mix) for row in p]
        known = one_hot(labels, self.facts.classes)
        trusted = [i for i in range(len(images)) if sure[i]]
        permuted = sorted(trusted, key=lambda i: float(draws["order"][i]))
        mixed, goals = [], []
        for i, image in enumerate(images):
            own, kind = (known[i], 0) if sure[i] else (p[i - size], 1)
            if sure[i]:
                fitting = [permuted[trusted.index(i)]]
            else:
                fitting = [j for j in trusted if draws["any_class"] or labels[j] == labels[i]]
                fitting.sort(key=lambda j: float(draws["choice"][i - size][j]))
            if not fitting:
                mixed.append(image)
                goals.append(own)
                continue
            drawn, *centre = draws["boxes"][kind]
            side = 0.1 + 0.7 * math.sqrt(drawn)
            made, lam = resize_mix(image, images[fitting[-1]], side, np.array(centre))
            mixed.append(made)
            goals.append(lam * own + (1 - lam) * known[fitting[-1]])
        return values | {
            "mixed_images": np.stack(mixed),
            "mixed_targets": np.stack(goals),
            "mixed_mask": np.array(sure, dtype=np.float64),
        }

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        logits, goals = NumpyNet(params)(values["mixed_images"]).logits, values["mixed_targets"]
        sure, size = values["mixed_mask"], len(batch.y)
        rest = 1 - sure[size:]
        count = max(rest.sum(), 1)
        cubes = (rest * values["p"].max(axis=1) ** 3).sum() / count
        return super().terms(params, batch, values) | {
            "mixed": float((sure * soft_ce(logits, goals)).sum() / len(rest)),
            "class_aware": float(cubes * (rest * mse(logits[size:], goals[size:])).sum() / count),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        own = {"mixed": self.lambda_mix, "class_aware": self.lambda_cam}
        return super().factors(batch) | own
