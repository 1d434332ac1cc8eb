"""trust.json: scores on held-out images, and what was predicted of the unlabelled ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from .metrics import Points
from .words import number, numbers, table, text, whole

FEWEST = 10  # images in a bin of confidence; a bin with fewer is not drawn


@dataclass(frozen=True)
class ClassScores:
    """Images of a class, images predicted as it, and those that are both."""

    images: int
    predicted: int
    right: int

    @property
    def precision(self) -> float | None:
        """In percent; None where the class was never predicted."""
        return 100 * self.right / self.predicted if self.predicted else None


@dataclass(frozen=True)
class ReliabilityCurve:
    """Mean confidence, calibration error and the curve, in percent."""

    confidence: float
    error: float
    curve: Points  # (mean confidence, accuracy) of each well-filled bin


@dataclass(frozen=True)
class Picture:
    """A small picture, its true and its predicted class."""

    image: str
    label: str  # the true class, empty where it is not known
    predicted: str
    confidence: float


@dataclass(frozen=True)
class Held:
    """Scores on held-out images; shares are in percent."""

    images: int
    low: float  # of the accuracy
    high: float
    classes: list[ClassScores]
    pairs: dict[tuple[int, int], int]  # images by true and predicted class
    before: ReliabilityCurve
    after: ReliabilityCurve | None
    temperature: float | None
    fitted_on: int
    reason: str  # why no temperature was fitted, or how it was measured
    doubtful: list[Picture]
    confident_wrong: list[Picture]


@dataclass(frozen=True)
class SweepLevel:
    """What a threshold accepts: share of the pool and share of that which is right, in percent."""

    tau: float
    images: int
    used: float
    precision: float | None


@dataclass(frozen=True)
class PoolScores:
    """The unlabelled images at the end of the run."""

    images: int
    drawn: int
    never_accepted: int | None
    factors: list[float]
    weights: list[float]
    has_shares: bool
    tau: float | None
    sweep: list[SweepLevel]


@dataclass(frozen=True)
class TrustFile:
    """Contents of trust.json; `held` is None with a `reason` where no label was held out."""

    held: Held | None = None
    pool: PoolScores | None = None
    reason: str = "trust.json is written when a run finishes"


def trust_of(content: Mapping[str, object]) -> TrustFile:
    """Read trust.json; what is missing or of another type is left out."""
    if not content:
        return TrustFile()
    return TrustFile(_held(content), _pool(table(content.get("pool"))), text(content.get("reason")))


def _held(content: Mapping[str, object]) -> Held | None:
    images = whole(content.get("images"))
    interval = numbers(content.get("interval"))
    calibration = table(content.get("calibration"))
    before = _reliability(calibration.get("before"))
    if not images or before is None or len(interval) != 2:
        return None
    low, high = (100 * bound for bound in interval)
    return Held(
        images=images, low=low, high=high,
        classes=[
            ClassScores(*(whole(entry.get(name)) or 0 for name in ("images", "predicted", "right")))
            for entry in _entries(content.get("classes"))
        ],
        pairs=_pairs(content.get("confusion")),
        before=before,
        after=_reliability(calibration.get("after")),
        temperature=number(calibration.get("temperature")),
        fitted_on=whole(calibration.get("fitted_on")) or 0,
        reason=text(calibration.get("reason")),
        doubtful=_pictures(content.get("doubtful")),
        confident_wrong=_pictures(content.get("confident_wrong")),
    )  # fmt: skip


def _entries(value: object) -> list[dict[str, object]]:
    return [table(entry) for entry in value] if isinstance(value, list) else []


def _pairs(value: object) -> dict[tuple[int, int], int]:
    found = {}
    for entry in value if isinstance(value, list) else []:
        if isinstance(entry, list) and len(entry) == 3 and all(whole(n) is not None for n in entry):
            true, predicted, images = cast("list[int]", entry)
            found[true, predicted] = images
    return found


def _reliability(value: object) -> ReliabilityCurve | None:
    entry = table(value)
    confidence, error = number(entry.get("confidence")), number(entry.get("ece"))
    if confidence is None or error is None:
        return None
    curve: Points = []
    for one in _entries(entry.get("bins")):
        sure, right = number(one.get("confidence")), number(one.get("accuracy"))
        if sure is not None and right is not None and (whole(one.get("images")) or 0) >= FEWEST:
            curve.append((100 * sure, 100 * right))
    return ReliabilityCurve(100 * confidence, 100 * error, curve)


def _pictures(value: object) -> list[Picture]:
    """Entries with an image, the true and the predicted class, and the confidence."""
    return [
        Picture(
            text(entry.get("image")), text(entry.get("label")), text(entry.get("predicted")),
            number(entry.get("confidence")) or 0.0,
        )
        for entry in _entries(value)
    ]  # fmt: skip


def _pool(entry: dict[str, object]) -> PoolScores | None:
    images = whole(entry.get("images"))
    if not images:
        return None
    levels = []
    for one in _entries(entry.get("sweep")):
        tau, used = number(one.get("tau")), number(one.get("used"))
        precision = number(one.get("precision"))
        if tau is not None and used is not None:
            right = None if precision is None else 100 * precision
            levels.append(SweepLevel(tau, whole(one.get("images")) or 0, 100 * used, right))
    return PoolScores(
        images=images,
        drawn=whole(entry.get("drawn")) or 0,
        never_accepted=whole(entry.get("never_accepted")),
        factors=numbers(entry.get("factors")),
        weights=numbers(entry.get("weights")),
        has_shares=bool(numbers(entry.get("p_model"))),
        tau=number(entry.get("tau")),
        sweep=levels,
    )
