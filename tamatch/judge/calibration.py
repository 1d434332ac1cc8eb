"""Calibration: confidence against accuracy, and a temperature that corrects the confidence.

Pure functions of probabilities and true labels. Shares are shares of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]

NOT_FITTED = "there are no validation images; --validation-per-class N holds some out"
BINS = 10  # of the reliability curve
FEWEST_TO_FIT = 50  # images to fit a temperature on; with fewer it does more harm than good
FOLDS = 5  # where the same images must serve for fitting and for measuring
HOTTEST = 20.0  # temperatures are sought in [1/20, 20]
TINY = 1e-30  # instead of a probability that has underflowed


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
    if len(labels) < FEWEST_TO_FIT:
        return f"{len(labels)} validation images are fewer than the {FEWEST_TO_FIT} required"
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
    how = f"measured by {FOLDS}-fold cross-validation"
    before, after = reliability(p, labels), reliability(crossed, labels)
    return Calibration(before, after, fit_temperature(p, labels), len(labels), how)


def calibration_of(p: Mapping[str, Floats], labels: Mapping[str, Labels]) -> Calibration:
    """The temperature by the validation images, judged by the test images where there are any."""
    if "validation" not in p:
        return uncalibrated(p["test"], labels["test"], NOT_FITTED)
    if "test" not in p:
        return calibrate_on_itself(p["validation"], labels["validation"])
    return calibrate(p["test"], labels["test"], p["validation"], labels["validation"])
