"""Run and baseline on the same held-out images: the difference of their errors, image by image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError
from ..storage.spreadsheet import read_rows

CERTAIN = 1.96  # standard errors on either side of a 95 % interval


@dataclass(frozen=True)
class Paired:
    """Error of the baseline minus error of the run, in points, with its 95 % interval."""

    images: int
    gap: float
    low: float
    high: float

    @property
    def undecided(self) -> str:
        """What an interval on both sides of zero leaves open."""
        return (
            f"With {self.images} images, the first may be anywhere from {self.high:.1f} points "
            f"below the second to {-self.low:.1f} above it."
        )


def paired(run: Path, baseline: Path, part: str) -> Paired | None:
    """Compare two tables of predictions; None where there are none of the same images."""
    ours, theirs = (_right(path / "predictions" / f"{part}.csv") for path in (run, baseline))
    if not ours or ours.keys() != theirs.keys():
        return None
    gains = [ours[image] - theirs[image] for image in ours]
    low, high = _interval(gains.count(1), gains.count(-1), len(gains))
    return Paired(len(gains), 100 * sum(gains) / len(gains), 100 * low, 100 * high)


def _interval(better: int, worse: int, images: int) -> tuple[float, float]:
    """Bonett and Price's interval of the mean gain: as if one more image spoke for either side.

    Without these two, a handful of images that all speak for one side would seem to prove it, and
    none that speak for either would seem to prove that there is no difference.
    """
    count = images + 2
    mean, share = (better - worse) / count, (better + worse + 2) / count
    reach = CERTAIN * math.sqrt((share - mean**2) / count)
    return max(-1.0, mean - reach), min(1.0, mean + reach)


def _right(table: Path) -> dict[str, int]:
    """Of each image, whether it was predicted right; empty if the table cannot be read."""
    try:
        rows = read_rows(table, "image", "label", "predicted")
        return {row["image"]: int(row["label"] == row["predicted"]) for row in rows}
    except DataError:
        return {}
