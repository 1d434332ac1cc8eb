"""Read predictions/test.csv once: confusion counts, and how far confidence can be trusted."""

from __future__ import annotations

import csv
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ..spreadsheet import restore
from .metrics import Points

BINS = 10
FEWEST = 10  # a bin with fewer images says nothing


@dataclass
class Bin:
    """The images whose confidence falls into one tenth of [0, 1]."""

    images: int = 0
    confidence: float = 0.0  # summed
    right: int = 0


@dataclass
class Predictions:
    """Counts over the test images whose true label is known."""

    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)  # (true, predicted)
    bins: list[Bin] = field(default_factory=lambda: [Bin() for _ in range(BINS)])

    @property
    def total(self) -> int:
        """Images with a true label."""
        return sum(self.pairs.values())

    def mistakes(self, most: int) -> list[tuple[str, str, int]]:
        """The most frequent (true, predicted, images) with true != predicted, if made twice."""
        wrong = ((pair, n) for pair, n in self.pairs.items() if pair[0] != pair[1] and n > 1)
        return [(*pair, n) for pair, n in sorted(wrong, key=lambda one: (-one[1], one[0]))[:most]]

    def matrix(self, names: tuple[str, ...]) -> list[list[int]]:
        """Images by true class (row) and predicted class (column)."""
        return [[self.pairs[true, predicted] for predicted in names] for true in names]

    def reliability(self) -> Points:
        """(mean confidence, accuracy) in percent, of each well-filled bin of confidence."""
        filled = [one for one in self.bins if one.images >= FEWEST]
        return [(100 * one.confidence / one.images, 100 * one.right / one.images) for one in filled]

    @property
    def mean_confidence(self) -> float | None:
        """In percent."""
        images = sum(one.images for one in self.bins)
        return 100 * sum(one.confidence for one in self.bins) / images if images else None

    @property
    def calibration_error(self) -> float | None:
        """Expected calibration error in percent: mean |confidence - accuracy|, bins by images."""
        images = sum(one.images for one in self.bins)
        if not images:
            return None
        return 100 * sum(abs(one.confidence - one.right) for one in self.bins) / images

    def add(self, true: str, predicted: str, confidence: float) -> None:
        """Count one image."""
        self.pairs[true, predicted] += 1
        if 0 <= confidence <= 1:
            slot = self.bins[min(int(confidence * BINS), BINS - 1)]
            slot.images += 1
            slot.confidence += confidence
            slot.right += true == predicted


def read_predictions(path: Path) -> Predictions | None:
    """Stream the file; None if it is missing, broken, or names no true label."""
    found = Predictions()
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            for row in csv.DictReader(file):
                true, predicted = row.get("label"), row.get("predicted")
                if true and predicted:
                    found.add(restore(true), restore(predicted), _float(row.get("confidence")))
    except (OSError, csv.Error):
        return None
    return found if found.total else None


def _float(value: str | None) -> float:
    try:
        return float(value or "nan")
    except ValueError:
        return math.nan
