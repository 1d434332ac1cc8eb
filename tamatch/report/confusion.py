"""The confusion matrix as a table of shaded cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .predictions import Predictions

LARGEST = 20  # classes; a larger matrix is unreadable, the most frequent mistakes say more


@dataclass(frozen=True)
class Cell:
    """Images of one true class predicted as one class; `shade` in [0, 1] is for the background."""

    images: int
    shade: float
    right: bool


def confusion_rows(
    predictions: Predictions, names: tuple[str, ...]
) -> list[tuple[str, list[Cell]]]:
    """One row a true class; empty for many classes or names that do not occur in the file."""
    if len(names) > LARGEST:
        return []
    matrix = predictions.matrix(names)
    if not any(map(any, matrix)):
        return []
    rows = []
    for true, counts in enumerate(matrix):
        total = sum(counts) or 1
        # The square root lifts rare mistakes, which a linear shade would leave invisible.
        cells = [
            Cell(n, math.sqrt(n / total), true == predicted) for predicted, n in enumerate(counts)
        ]
        rows.append((names[true], cells))
    return rows
