"""How far a model can be trusted, from its probabilities on images with known labels.

The accuracy with its interval, the calibration of the confidences, and the confidence threshold
that guarantees a precision.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .figures import LEVEL, Bin, Calibration, ClassCounts, Level, Reliability, Trust

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]
Flags = npt.NDArray[np.bool_]

TAUS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99)  # of a sweep
NOT_FITTED = "there are no validation images; --validation-per-class N holds some out"
BINS = 10  # of the reliability curve
FEWEST_TO_FIT = 50  # images to fit a temperature on; with fewer it does more harm than good
FOLDS = 5  # where the same images are used for fitting and for measuring
HOTTEST = 20.0  # temperatures are sought in [1/20, 20]
TINY = 1e-30  # instead of a probability that has underflowed
RISK = 0.05  # chance that a guaranteed precision does not hold
SHARES = (1.0, 0.8, 0.6, 0.4, 0.2)  # candidate thresholds: those that keep this share of the images


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


def calibration_of(p: Mapping[str, Floats], labels: Mapping[str, Labels]) -> Calibration:
    """The temperature by the validation images, judged by test images or else cross-validation."""
    part = "test" if "test" in p else "validation"
    p_val, y_val = p.get("validation", np.empty((0, 1))), labels.get("validation", np.empty(0, int))
    why = ""
    if "validation" not in p:
        why = NOT_FITTED
    elif len(y_val) < FEWEST_TO_FIT:
        why = f"{len(y_val)} validation images are fewer than the {FEWEST_TO_FIT} required"
    elif (p_val.argmax(-1) == y_val).all():
        why = "no validation image is wrong, so nothing limits the confidence"
    if why:
        return uncalibrated(p[part], labels[part], why, len(y_val))
    t, how = fit_temperature(p_val, y_val), ""
    if part == "test":
        after = reliability(tempered(p["test"], t), labels["test"])
    else:
        fold, crossed = np.arange(len(y_val)) % FOLDS, np.empty(p_val.shape)
        for i in range(FOLDS):
            here = fold == i
            crossed[here] = tempered(p_val[here], fit_temperature(p_val[~here], y_val[~here]))
        after, how = reliability(crossed, y_val), f"measured by {FOLDS}-fold cross-validation"
    return Calibration(reliability(p[part], labels[part]), after, t, len(y_val), how)


def measure(p: Floats, labels: Labels, calibration: Calibration | None = None) -> Trust:
    """Compare probabilities (n, C) with the true labels (n,), n ≥ 1."""
    predicted, classes = p.argmax(-1), p.shape[1]
    right = predicted == labels
    counts = (
        np.bincount(some, minlength=classes).tolist()
        for some in (labels, predicted, predicted[right])
    )
    pairs = labels.astype(np.int64) * classes + predicted
    found = zip(*np.unique(pairs, return_counts=True), strict=True)
    return Trust(
        images=len(labels),
        right=int(right.sum()),
        interval=wilson(int(right.sum()), len(labels)),
        classes=tuple(map(ClassCounts, *counts)),
        confusion=tuple((int(pair) // classes, int(pair) % classes, int(n)) for pair, n in found),
        calibration=calibration or uncalibrated(p, labels, "there are no validation images"),
    )


def wilson(right: int, images: int) -> tuple[float, float]:
    """Wilson's interval at LEVEL for a share, which unlike the usual one holds for few images."""
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


@dataclass(frozen=True)
class Cut:
    """A confidence cut and what the held-out images at or above it say."""

    confidence: float
    images: int
    right: int
    precision: float  # at least this, except for the chance RISK


def lower_bound(right: int, images: int, risk: float) -> float:
    """Clopper and Pearson's exact one-sided lower confidence bound of the share that is right."""
    from scipy.stats import beta  # type: ignore[import-untyped]

    return float(beta.ppf(risk, right, images - right + 1)) if right else 0.0


def least_images(precision: float) -> int:
    """The fewest images that can show this precision, if the model errs on none of them."""
    return math.ceil(math.log(RISK / len(SHARES)) / math.log(precision))


def choose_cut(
    confidence: npt.NDArray[Any],
    right: npt.NDArray[np.bool_],
    precision: float,
    kind: str = "validation images",
) -> Cut:
    """The lowest candidate cut at which the bound reaches `precision`, or an error that says why.

    The candidates follow from the confidences alone, before anybody looks at what is right, and
    share the risk between them (Bonferroni), so that the guarantee holds for whichever is taken.
    """
    tried = [cut_at(confidence, right, share) for share in SHARES]
    for cut in tried:
        if cut.precision >= precision:
            return cut
    best = max(tried, key=lambda cut: cut.precision)
    raise DataError(
        f"no confidence threshold guarantees --precision {precision:g}: from {best.confidence:.4f} "
        f"on, {best.right:,} of {best.images:,} {kind} are classified correctly, which guarantees "
        f"at most {best.precision:.4f}. More {kind} or a better model is needed; --min-confidence "
        "sets a threshold without a guarantee."
    )


def cut_at(confidence: npt.NDArray[Any], right: npt.NDArray[np.bool_], share: float) -> Cut:
    """The cut that keeps this share of the images, and those of the same confidence."""
    rank = math.ceil(share * len(confidence))
    level = float(np.sort(confidence)[-rank])
    kept = confidence >= level
    images, hits = int(kept.sum()), int(right[kept].sum())
    return Cut(level, images, hits, lower_bound(hits, images, RISK / len(SHARES)))
