"""Run and baseline on the same held-out images: the difference of their errors, image by image."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

CERTAIN = 1.96  # standard errors on either side of a 95 % interval


@dataclass(frozen=True)
class Paired:
    """Error of the baseline minus error of the run, in points, with its 95 % interval."""

    images: int
    gap: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Is it more than the choice of test images can explain?"""
        return self.low > 0 or self.high < 0


def paired(run: Path, baseline: Path, part: str) -> Paired | None:
    """Compare two tables of predictions; None where there are none of the same images."""
    ours, theirs = (_right(path / "predictions" / f"{part}.csv") for path in (run, baseline))
    if not ours or ours.keys() != theirs.keys():
        return None
    gains = [ours[image] - theirs[image] for image in ours]
    count, mean = len(gains), sum(gains) / len(gains)
    spread = sum((gain - mean) ** 2 for gain in gains) / max(1, count - 1)
    reach = CERTAIN * math.sqrt(spread / count)
    return Paired(count, 100 * mean, 100 * (mean - reach), 100 * (mean + reach))


def _right(table: Path) -> dict[str, int]:
    """Of each image, whether it was predicted right; empty if the table cannot be read."""
    try:
        with table.open(newline="", encoding="utf-8") as file:
            return {
                row["image"]: int(row["label"] == row["predicted"]) for row in csv.DictReader(file)
            }
    except (OSError, ValueError, KeyError, csv.Error):
        return {}
