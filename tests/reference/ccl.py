"""CCL: two heads that label together, and embeddings compared by continuous labels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .base import SlowMethod
from .net import CLASSES, WIDTH, NumpyNet, linear, linear_shapes, two_layer_shapes, two_layers
from .primitives import (
    at_least,
    ce,
    hard,
    log_softmax,
    moved,
    normalise,
    one_hot,
    over_all,
    softmax,
    unit,
)
from .records import Array, Facts, NumpyBatch, Params, Values

EPSILON = 1e-6
BEGINNING = 0.04


def class_mass(f: Array, keys: Array, labels: Array, temperature: float) -> Array:
    """Σ exp(f·key / t) · label / Σ label, for each row of f and each class."""
    out = np.zeros((len(f), labels.shape[1]))
    for i, row in enumerate(f):
        near = [np.exp(row @ key / temperature) for key in keys]
        for c in range(labels.shape[1]):
            out[i, c] = float(np.dot(near, labels[:, c]))
    return out / labels.sum(axis=0)


class Reference(SlowMethod):
    """0.7 · (labelled + λ · unlabelled) + λc · smooth + 0.3 · contrast."""

    x_views = ("weak", "strong", "strong")
    u_views = ("weak", "strong", "strong")
    heads = (
        linear_shapes("second", WIDTH, CLASSES)
        | two_layer_shapes("projector", WIDTH, 2 * WIDTH)
        | two_layer_shapes("centre", WIDTH, 2 * WIDTH)
    )
    stored: ClassVar = {"pool": "pool.value", "used": "used.value"}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        strength: float = 2.0,
        energy: float = -8.75,
        temperature: float = 0.1,
        contrast_weight: float = 1.0,
        momentum: float = 0.999,
    ) -> None:
        super().__init__(params, facts)
        self.threshold, self.strength, self.energy = threshold, strength, energy
        self.temperature, self.contrast_weight = temperature, contrast_weight
        self.momentum = momentum
        self.shares = np.array(facts.labelled_shares)
        self.state["pool"] = np.full(facts.classes, 1 / facts.classes)
        self.state["used"] = self.shares.copy()

    def targets(self, batch: NumpyBatch) -> Values:
        facts, weak = self.facts, self.net(batch.u[0])
        part = facts.batch_unlabelled / (facts.batch_unlabelled + facts.batch_labelled)
        learnt = (1 - part) * self.shares + part * self.state["used"]
        plain = linear(self.params, "second", weak.features) - np.log(learnt + EPSILON)
        plain = plain + (1 + self.strength / 2) * np.log(self.state["pool"] + EPSILON)
        logits = 0.5 * plain + 0.5 * weak.logits
        q = softmax(logits)
        mask = at_least(q, self.threshold)
        sure = np.array([float(-np.log(np.exp(z).sum()) <= self.energy) for z in logits])
        adjust_u = self.strength * np.log(self.state["used"] + EPSILON)
        for name, kept in (("pool", sure), ("used", mask)):
            count = (kept[:, None] * q).sum(axis=0)
            if batch.progress >= BEGINNING and count.any():
                self.state[name] = moved(self.state[name], count / count.sum(), self.momentum)
        aim = self.spread(self.params, batch, batch.u[0]) ** 4
        return {
            "p": q, "label": hard(q), "mask": mask, "sure": sure, "adjust_u": adjust_u,
            "soft": normalise(q**4), "aim": normalise(aim),
        }  # fmt: skip

    def embedded(self, params: Params, images: Array) -> Array:
        return unit(two_layers(params, "projector", NumpyNet(params)(images).features))

    def memory(self, params: Params, batch: NumpyBatch) -> tuple[Array, Array]:
        """Centres and labelled strong views, and how much each counts for each class."""
        centres = unit(two_layers(params, "centre", params["second.weight"]))
        seen = [self.embedded(params, view) for view in batch.x[1:]]
        y = one_hot(batch.y, self.facts.classes)
        ones = np.ones((self.facts.classes, self.facts.classes))
        return np.concatenate([centres, *seen]), np.concatenate([ones, y, y])

    def spread(self, params: Params, batch: NumpyBatch, view: Array) -> Array:
        keys, labels = self.memory(params, batch)
        f = self.embedded(params, view)
        own = softmax(np.log(class_mass(f, keys, labels, self.temperature)))
        around = softmax(f @ f.T)
        return np.linalg.inv(np.eye(len(f)) - 0.2 * around) @ (0.8 * own)

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        x = NumpyNet(params)(batch.x[0])
        labelled = ce(x.logits + self.strength * np.log(self.shares + EPSILON), batch.y)
        labelled = labelled + ce(linear(params, "second", x.features), batch.y)
        unlabelled = 0.0
        for view in batch.u[1:]:
            strong = NumpyNet(params)(view)
            plain = ce(linear(params, "second", strong.features), values["label"])
            own = ce(strong.logits + values["adjust_u"], values["label"])
            unlabelled += over_all(plain + own, values["mask"]) / 2
        one, two = (self.spread(params, batch, view) for view in batch.u[1:])
        smooth = 0.0
        for aim, p in ((values["aim"], one), (values["aim"], two), ((one + two) / 2,) * 2):
            smooth -= float(np.mean((aim * np.log(p)).sum(axis=1))) / 3
        return {
            "labelled": float(np.mean(labelled)), "unlabelled": unlabelled, "smooth": smooth,
            "contrast": self.contrast(params, batch, values),
        }  # fmt: skip

    def contrast(self, params: Params, batch: NumpyBatch, values: Values) -> float:
        """Each image that has a label against all others that have one, and the centres."""
        keys, labels = self.memory(params, batch)
        kept = values["sure"] == 1
        for view in batch.u[1:]:
            keys = np.concatenate([keys, self.embedded(params, view)[kept]])
            labels = np.concatenate([labels, values["soft"][kept]])
        losses = []
        for i in range(self.facts.classes, len(keys)):
            others = np.arange(len(keys)) != i
            mass = class_mass(keys[i : i + 1], keys[others], labels[others], self.temperature)
            losses.append(-float((labels[i] * log_softmax(np.log(mass))[0]).sum()))
        return float(np.mean(losses))

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        many = max(1.5, self.facts.batch_unlabelled / self.facts.batch_labelled)
        return {
            "labelled": 0.7, "unlabelled": 0.7 * many, "smooth": self.contrast_weight,
            "contrast": 0.3,
        }  # fmt: skip
