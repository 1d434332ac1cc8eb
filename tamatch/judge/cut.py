"""The confidence threshold at which labels reach a wanted precision, with a guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError

RISK = 0.05  # chance that a guarantee does not hold
SHARES = (1.0, 0.8, 0.6, 0.4, 0.2)  # candidates: cuts that keep this share of the images


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
