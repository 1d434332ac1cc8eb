"""How far a model can be trusted, from its probabilities on images with known labels.

Pure functions of arrays. Shares are shares of one; what cannot be said is None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]
Flags = npt.NDArray[np.bool_]

LEVEL = 0.95  # of the confidence interval
BINS = 10  # of the reliability curve
FEWEST = 50  # images that a temperature is fitted on; with fewer it does more harm than good
FOLDS = 5  # where the same images must serve for fitting and for measuring
HOTTEST = 20.0  # temperatures are sought in [1/20, 20]
TAUS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)  # of a sweep
TINY = 1e-30  # instead of a probability that has underflowed


@dataclass(frozen=True)
class ClassMarks:
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
class Bin:
    """The images whose confidence falls between two tenths."""

    images: int
    confidence: float  # the mean
    accuracy: float


@dataclass(frozen=True)
class Reliability:
    """Does a confidence of 80 % mean that 80 % are right?"""

    confidence: float  # the mean over all images
    ece: float  # expected calibration error
    bins: tuple[Bin, ...]  # those that are not empty, by rising confidence


@dataclass(frozen=True)
class Calibration:
    """Confidence against accuracy, before and after the temperature where one was fitted."""

    before: Reliability
    after: Reliability | None
    temperature: float | None
    fitted_on: int  # validation images
    reason: str  # why no temperature was fitted, or how `after` was measured


@dataclass(frozen=True)
class Trust:
    """What held-out images say of a model."""

    images: int
    right: int
    interval: tuple[float, float]  # of the accuracy, Wilson's, at LEVEL
    classes: tuple[ClassMarks, ...]
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


@dataclass(frozen=True)
class Level:
    """What a threshold τ would accept: the share of the pool, and how much of that is right."""

    tau: float
    images: int
    used: float
    precision: float | None  # None where no true label is known, or nothing is accepted


def measure(p: Floats, labels: Labels, calibration: Calibration | None = None) -> Trust:
    """Marks of probabilities (n, C) against the true labels (n,), n ≥ 1."""
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
        classes=class_marks(confusion, classes),
        confusion=tuple(confusion),
        calibration=calibration or uncalibrated(p, labels, "there are no validation images"),
    )


def class_marks(confusion: Sequence[tuple[int, int, int]], classes: int) -> tuple[ClassMarks, ...]:
    """Row sums, column sums and the diagonal."""
    images, predicted, right = [0] * classes, [0] * classes, [0] * classes
    for true, guess, n in confusion:
        images[true] += n
        predicted[guess] += n
        if true == guess:
            right[true] += n
    return tuple(map(ClassMarks, images, predicted, right))


def wilson(right: int, images: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval for a share; unlike the usual one it holds for few images, too."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, weight = right / images, z * z / images
    centre = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / images + weight / (4 * images))
    return min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)  # rounding


def reliability(p: Floats, labels: Labels) -> Reliability:
    """Mean |confidence − accuracy| over ten bins of confidence, each weighted by its images."""
    confidence, right = p.max(-1).astype(np.float64), p.argmax(-1) == labels
    slot = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    bins = [
        Bin(int(here.sum()), float(confidence[here].mean()), float(right[here].mean()))
        for here in (slot == i for i in range(BINS))
        if here.any()
    ]
    gaps = math.fsum(b.images * abs(b.confidence - b.accuracy) for b in bins)
    return Reliability(float(confidence.mean()), gaps / len(labels), tuple(bins))


def tempered(p: Floats, temperature: float) -> npt.NDArray[np.float64]:
    """softmax(z/T) of the logits z behind the probabilities; T = 1 changes nothing."""
    z = np.log(np.maximum(p.astype(np.float64), TINY)) / temperature
    grown = np.exp(z - z.max(-1, keepdims=True))
    shares: npt.NDArray[np.float64] = grown / grown.sum(-1, keepdims=True)
    return shares


def fit_temperature(p: Floats, labels: Labels) -> float:
    """The T that makes the true labels most likely.

    In β = 1/T the loss is convex, with the slope E[Σ p_β·z − z_y]: bisection finds its zero.
    """
    z = np.log(np.maximum(p.astype(np.float64), TINY))
    own = z[np.arange(len(labels)), labels].mean()

    def slope(log_t: float) -> float:
        return float((tempered(p, math.exp(log_t)) * z).sum(-1).mean() - own)

    low, high = -math.log(HOTTEST), math.log(HOTTEST)  # of log T; the slope falls with T
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return math.exp((low + high) / 2)


def uncalibrated(p: Floats, labels: Labels, reason: str, fitted_on: int = 0) -> Calibration:
    """Confidence against accuracy, without a temperature and with the reason for that."""
    return Calibration(reliability(p, labels), None, None, fitted_on, reason)


def why_no_temperature(p: Floats, labels: Labels) -> str:
    """What keeps a temperature from being fitted on these images; empty if nothing does."""
    if len(labels) < FEWEST:
        return f"{len(labels)} validation images are fewer than the {FEWEST} it takes"
    if (p.argmax(-1) == labels).all():
        return "no validation image is wrong, so nothing limits the confidence"
    return ""


def calibrate(p: Floats, labels: Labels, p_val: Floats, y_val: Labels) -> Calibration:
    """Fit a temperature on validation images and measure what it does on others."""
    if reason := why_no_temperature(p_val, y_val):
        return uncalibrated(p, labels, reason, len(y_val))
    t = fit_temperature(p_val, y_val)
    after = reliability(tempered(p, t), labels)
    return Calibration(reliability(p, labels), after, t, len(y_val), "")


def calibrate_on_itself(p: Floats, labels: Labels) -> Calibration:
    """The same where there are validation images only: each is measured by the others' T."""
    if reason := why_no_temperature(p, labels):
        return uncalibrated(p, labels, reason, len(labels))
    fold, crossed = np.arange(len(labels)) % FOLDS, np.empty(p.shape)
    for i in range(FOLDS):
        here = fold == i
        crossed[here] = tempered(p[here], fit_temperature(p[~here], labels[~here]))
    how = f"measured {FOLDS}-fold: each image with a temperature fitted on the others"
    before, after = reliability(p, labels), reliability(crossed, labels)
    return Calibration(before, after, fit_temperature(p, labels), len(labels), how)


def sweep(confidence: Floats, right: Flags | None, taus: Sequence[float] = TAUS) -> list[Level]:
    """What each threshold would accept of a pool; `right` where its true labels are known."""
    levels = []
    for tau in taus:
        kept = confidence >= tau
        images = int(kept.sum())
        precision = float(right[kept].mean()) if right is not None and images else None
        levels.append(Level(tau, images, images / max(1, len(confidence)), precision))
    return levels
