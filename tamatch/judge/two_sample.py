"""A classifier two-sample test: can a linear classifier tell two sets of images apart?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]

MOST_IMAGES = 500  # of a set that are looked at
FEWEST_IMAGES = 10  # with fewer nothing is said
FOLDS = 5
CLEAR = 0.8  # AUC from which two sets are said to differ, if there are enough images
STANDARD_ERRORS = 5.0  # by which the AUC must lie above 1/2 as well
PERFECT = 0.98  # this is enough however few they are
SHRINK = 0.3  # of the covariance towards its diagonal: few images, many statistics
CHUNK = 64  # images in memory as floats at once
COARSE = 3  # rows and columns of a coarse view of each image

NAMES = (
    "red", "green", "blue", "contrast of red", "contrast of green", "contrast of blue",
    "darkest parts", "brightest parts", "vertical edges", "horizontal edges", "fine detail",
    "colourfulness",
    *(f"brightness {row} {column}" for row in ("at the top", "in the middle", "at the bottom")
      for column in ("left", "centre", "right")),
)  # fmt: skip


@dataclass(frozen=True)
class TwoSampleTest:
    """How well the two sets can be told apart: AUC 1/2 is not at all, 1 without a mistake."""

    auc: float
    limit: float  # above it the sets are said to differ
    statistic: str  # the one whose means differ most
    means: tuple[float, float]  # of that statistic in both sets; 0 is black, 1 is white

    @property
    def differ(self) -> bool:
        return self.auc > self.limit


def two_sample_test(first: Pixels, second: Pixels) -> TwoSampleTest | None:
    """Compare images (N, H, W, 3); None where one of the sets is too small to tell."""
    if min(len(first), len(second)) < FEWEST_IMAGES:
        return None
    a, b = (
        statistics(first[evenly_spread(len(first))]),
        statistics(second[evenly_spread(len(second))]),
    )
    both = np.concatenate([a, b])
    scale = both.std(0)
    divisor = np.where(scale > 1e-9, scale, 1)
    a, b = a / divisor, b / divisor
    most = int(np.abs(a.mean(0) - b.mean(0)).argmax())
    error = math.sqrt((len(a) + len(b) + 1) / (12 * len(a) * len(b)))  # of an AUC without cause
    limit = min(max(CLEAR, 0.5 + STANDARD_ERRORS * error), PERFECT)
    means = (float(a[:, most].mean() * scale[most]), float(b[:, most].mean() * scale[most]))
    return TwoSampleTest(crossed_auc(a, b), limit, NAMES[most], means)


def evenly_spread(count: int) -> npt.NDArray[np.int64]:
    """At most `MOST_IMAGES` positions, evenly over all."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_IMAGES)).round().astype(np.int64))


def statistics(images: Pixels) -> Floats:
    """(n, statistics): colour, contrast, edges, detail and where it is bright."""
    parts = (images[i : i + CHUNK].astype(np.float32) / 255 for i in range(0, len(images), CHUNK))
    return np.concatenate([of_batch(part) for part in parts]).astype(np.float64)


def of_batch(images: npt.NDArray[Any]) -> npt.NDArray[Any]:
    grey = images.mean(-1)
    across, down = np.diff(grey, axis=2), np.diff(grey, axis=1)
    detail = np.diff(across, axis=2)  # a blurred picture has edges, but no such curvature
    ordered = np.sort(grey.reshape(len(grey), -1), axis=1)
    twentieth = max(1, ordered.shape[1] // 20)
    parts = [
        part.mean((1, 2))
        for row in np.array_split(grey, COARSE, axis=1)
        for part in np.array_split(row, COARSE, axis=2)
    ]
    columns = [
        *images.mean((1, 2)).T, *images.std((1, 2)).T,
        ordered[:, :twentieth].mean(1), ordered[:, -twentieth:].mean(1),
        *(np.abs(change).mean((1, 2)) for change in (across, down, detail)),
        np.ptp(images, axis=-1).mean((1, 2)), *parts,
    ]  # fmt: skip
    return np.stack(columns, axis=1)


def crossed_auc(a: Floats, b: Floats) -> float:
    """The AUC of a linear classifier on images that it was not fitted on."""
    mine, others = np.arange(len(a)) % FOLDS, np.arange(len(b)) % FOLDS
    found = [
        auc(a[mine == i] @ w, b[others == i] @ w)
        for i in range(FOLDS)
        for w in [direction(a[mine != i], b[others != i])]
    ]
    return float(np.mean(found))


def direction(a: Floats, b: Floats) -> Floats:
    """Fisher's discriminant (Σ + shrinkage)⁻¹(μ_a − μ_b)."""
    centred = np.concatenate([a - a.mean(0), b - b.mean(0)])
    covariance = centred.T @ centred / len(centred)
    covariance *= 1 - SHRINK
    covariance[np.diag_indices_from(covariance)] /= 1 - SHRINK
    covariance += 1e-6 * np.eye(len(covariance))
    w: Floats = np.linalg.solve(covariance, a.mean(0) - b.mean(0))
    return w


def auc(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """The share of pairs in which the first set's score is the higher one; a tie is half a pair."""
    ordered = np.sort(b)
    below = np.searchsorted(ordered, a, "left") + np.searchsorted(ordered, a, "right")
    return float(below.mean() / (2 * len(b)))
