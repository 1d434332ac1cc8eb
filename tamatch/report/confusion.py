"""The confusion matrix as a table of shaded cells, or the most frequent mistakes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LARGEST = 20  # classes; a larger matrix is unreadable, the most frequent mistakes say more

Pairs = Mapping[tuple[int, int], int]  # images by true and predicted class


@dataclass(frozen=True)
class Cell:
    """Images of one true class predicted as one class; `shade` in [0, 1] is for the background."""

    images: int
    shade: float
    right: bool


def confusion_rows(pairs: Pairs, names: Sequence[str]) -> list[tuple[str, list[Cell]]]:
    """One row per true class; empty for many classes."""
    if len(names) > LARGEST or not pairs:
        return []
    rows = []
    for true, name in enumerate(names):
        counts = [pairs.get((true, predicted), 0) for predicted in range(len(names))]
        total = sum(counts) or 1
        # The square root lifts rare mistakes, which a linear shade would leave invisible.
        cells = [
            Cell(n, math.sqrt(n / total), true == predicted) for predicted, n in enumerate(counts)
        ]
        rows.append((name, cells))
    return rows


def frequent(pairs: Pairs, names: Sequence[str], most: int) -> list[tuple[str, str, int]]:
    """The most frequent (true, predicted, images) with true != predicted, if made twice."""
    wrong = [
        (names[true], names[predicted], n)
        for (true, predicted), n in pairs.items()
        if true != predicted and n > 1 and max(true, predicted) < len(names)
    ]
    return sorted(wrong, key=lambda one: (-one[2], one[:2]))[:most]
