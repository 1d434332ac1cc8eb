"""Warnings that a run does not learn as it should: what is seen, the likely cause, the cure.

Each rule is a function of a few numbers; None means that all is well. One of them tests whether a
linear classifier can tell the labelled from the unlabelled images.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Pixels = npt.NDArray[np.uint8]

PATIENCE = 2000  # steps after the warm-up before a warning; a quarter of a shorter run
UNUSED_BELOW = 0.01  # share of the unlabelled images below which they count as not used
EXPECTED_IMAGES = 10  # of a class, before its absence means something
LISTED_CLASSES = 5  # class names in a sentence

SHIFT = "labelled and unlabelled images look different"  # the name of a rule

MOST_IMAGES = 500  # of a set that are looked at
FEWEST_IMAGES = 10  # with fewer there is no test
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
class Symptom:
    """A warning in three parts."""

    name: str  # of the rule
    what: str
    cause: str
    cure: str

    def __str__(self) -> str:
        return f"Warning: {self.what} {self.cause} {self.cure}"


def patience(steps: int, warmup: int) -> int:
    """The step from which warnings are given."""
    return min(steps, warmup + min(PATIENCE, steps // 4))


@dataclass(frozen=True)
class Reached:
    """How confident the model is on the pool, to explain why nothing is accepted."""

    best: float
    tau: float | None  # the method's threshold, where it has one
    lower: float | None  # a threshold that would accept some


def unused(used: float, step: int, ask: Callable[[], Reached]) -> Symptom | None:
    """Warn if hardly any unlabelled image is accepted; only then `ask` looks at the pool."""
    if used >= UNUSED_BELOW:
        return None
    reached = ask()
    bar, lower = "is confident enough", ""
    if reached.tau is not None:
        bar = f"reaches τ = {reached.tau:g}"
        if reached.lower is not None and reached.lower < reached.tau:
            lower = f"--tau {reached.lower:g}, "
    cause = "The learning rate is probably too high, or there are too few labels or steps."
    cure = f"Try {lower}a smaller --lr, more --steps or more labels."
    if step < PATIENCE:  # what is learnt in so few steps is rarely sure of anything
        cause = (
            "There are probably too few steps; there may also be too few labels, or the learning "
            "rate is too high."
        )
        cure = f"Try more --steps, {lower}a smaller --lr or more labels."
    return Symptom(
        "unlabelled images not used",
        f"after {step:,} step{'s' * (step != 1)}, {100 * used:.1f} % of the unlabelled images are "
        f"used: hardly any {bar} (highest confidence {reached.best:.2f}). So far this equals "
        "supervised training.",
        cause,
        cure,
    )


def never_predicted(
    predicted: Sequence[float],
    images: float,
    shares: Sequence[float],
    names: Sequence[str],
    method: str = "",
) -> Symptom | None:
    """Warn of classes that are never predicted although many images should show them.

    `predicted` are shares among `images` unlabelled images, `shares` those among the labelled ones.
    """
    likely = [images * min(share, 1 / len(names)) for share in shares]
    missing = [
        name
        for name, share, expected in zip(names, predicted, likely, strict=True)
        if share == 0 and expected >= EXPECTED_IMAGES
    ]
    if not missing:
        return None
    listed = ", ".join(f'"{name}"' for name in missing[:LISTED_CLASSES])
    more = f" and {len(missing) - LISTED_CLASSES} more" if len(missing) > LISTED_CLASSES else ""
    plural = len(missing) > 1
    other = "" if method.startswith("tamatch") else "; --method tamatch keeps weak classes alive"
    it, its, them = ("them", "their", "these classes") if plural else ("it", "its", "the class")
    return Symptom(
        "class never predicted",
        f"no unlabelled image is predicted as {'any of ' if plural else ''}{listed}{more}.",
        f"Either no unlabelled image shows {it}, or the model has given {them} up: {its} labelled "
        "images may be too few, unlike the unlabelled ones, or wrong.",
        f"Check {its} labelled images and add more{other}.",
    )


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


def distribution_shift(found: TwoSampleTest | None) -> Symptom | None:
    """Warn if simple statistics tell labelled and unlabelled images apart."""
    if found is None or not found.differ:
        return None
    first, second = found.means
    return Symptom(
        SHIFT,
        f"{SHIFT}: simple statistics tell them apart "
        f"(AUC {found.auc:.2f}, where 0.5 is chance), above all {found.statistic} "
        f"({first:.2f} against {second:.2f}).",
        "They may differ in place, camera or preprocessing, or show different classes.",
        "Label some images from the pool itself, or remove from it what does not belong.",
    )


def two_sample_test(first: Pixels, second: Pixels) -> TwoSampleTest | None:
    """Compare images (N, H, W, 3); None where one of the sets is too small to tell."""
    if min(len(first), len(second)) < FEWEST_IMAGES:
        return None
    a, b = statistics(first), statistics(second)
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
