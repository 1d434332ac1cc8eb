"""How far a model can be trusted, from its probabilities on images with known labels.

Pure functions of arrays. Shares are shares of one; what cannot be said is None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from .calibration import Calibration, Floats, Labels, uncalibrated

Flags = npt.NDArray[np.bool_]

LEVEL = 0.95  # of the confidence interval
TAUS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)  # of a sweep


@dataclass(frozen=True)
class ClassCounts:
    """One class: images of it, images predicted as it, and those that are both."""

    images: int
    predicted: int
    right: int

    @property
    def precision(self) -> float | None:
        """Of the images predicted as this class, the share that is right."""
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """Of the images of this class, the share that was found."""
        return self.right / self.images if self.images else None


@dataclass(frozen=True)
class Trust:
    """What held-out images say about a model."""

    images: int
    right: int
    interval: tuple[float, float]  # of the accuracy, Wilson's, at LEVEL
    classes: tuple[ClassCounts, ...]
    confusion: tuple[tuple[int, int, int], ...]  # (true, predicted, images), no zeros
    calibration: Calibration

    @property
    def accuracy(self) -> float:
        return self.right / self.images

    @property
    def balanced_accuracy(self) -> float:
        """The mean recall of the classes that occur."""
        recalls = [c.recall for c in self.classes if c.recall is not None]
        return math.fsum(recalls) / len(recalls)

    def figures(self) -> dict[str, Any]:
        """As trust.json has them: shares of one, None where there is nothing to divide."""
        classes = [
            {**asdict(one), "precision": one.precision, "recall": one.recall}
            for one in self.classes
        ]
        own = {"accuracy": self.accuracy, "balanced_accuracy": self.balanced_accuracy}
        return {**asdict(self), **own, "level": LEVEL, "classes": classes}


@dataclass(frozen=True)
class Level:
    """What a threshold τ would accept: the share of the pool, and how much of that is right."""

    tau: float
    images: int
    used: float
    precision: float | None  # None where no true label is known, or nothing is accepted


def measure(p: Floats, labels: Labels, calibration: Calibration | None = None) -> Trust:
    """Compare probabilities (n, C) with the true labels (n,), n ≥ 1."""
    predicted, classes = p.argmax(-1), p.shape[1]
    right = int((predicted == labels).sum())
    pairs = labels.astype(np.int64) * classes + predicted
    found, counts = np.unique(pairs, return_counts=True)
    confusion = [
        (int(pair) // classes, int(pair) % classes, int(n))
        for pair, n in zip(found, counts, strict=True)
    ]
    return Trust(
        images=len(labels),
        right=right,
        interval=wilson(right, len(labels)),
        classes=class_counts(confusion, classes),
        confusion=tuple(confusion),
        calibration=calibration or uncalibrated(p, labels, "there are no validation images"),
    )


def class_counts(
    confusion: Sequence[tuple[int, int, int]], classes: int
) -> tuple[ClassCounts, ...]:
    """Row sums, column sums and the diagonal."""
    images, predicted, right = [0] * classes, [0] * classes, [0] * classes
    for true, guess, n in confusion:
        images[true] += n
        predicted[guess] += n
        if true == guess:
            right[true] += n
    return tuple(map(ClassCounts, images, predicted, right))


def wilson(right: int, images: int) -> tuple[float, float]:
    """Wilson's interval at LEVEL for a share; unlike the usual one it holds for few images, too."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    share, weight = right / images, z * z / images
    centre = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / images + weight / (4 * images))
    return min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)  # rounding


def sweep(confidence: Floats, right: Flags | None) -> list[Level]:
    """What each of TAUS would accept of a pool; `right` where its true labels are known."""
    levels = []
    for tau in TAUS:
        kept = confidence >= tau
        images = int(kept.sum())
        precision = float(right[kept].mean()) if right is not None and images else None
        levels.append(Level(tau, images, images / max(1, len(confidence)), precision))
    return levels
