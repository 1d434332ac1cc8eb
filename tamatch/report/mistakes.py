"""The section on mistakes: which classes are confused, and how far confidence can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from .confusion import Cell, confusion_rows
from .curve import Line
from .predictions import Predictions, read_predictions
from .svg import Across, line_chart
from .words import percent

FREQUENT = 15  # mistakes listed where a matrix would be too large
FEWEST_BINS = 3  # a curve of fewer points says nothing


@dataclass(frozen=True)
class Mistakes:
    """What the template shows of it; the matrix is empty for many classes."""

    images: int
    matrix: list[tuple[str, list[Cell]]]
    frequent: list[tuple[str, str, int]]  # true, predicted, images
    calibration_error: str
    confidence: str  # the mean
    reliability_chart: Markup


def mistakes_of(path: Path, names: Sequence[str]) -> Mistakes | None:
    """Read the predictions; None where there are none with a true label."""
    predictions = read_predictions(path)
    if predictions is None:
        return None
    return Mistakes(
        images=predictions.total,
        matrix=confusion_rows(predictions, tuple(names)),
        frequent=predictions.mistakes(FREQUENT),
        calibration_error=percent(predictions.calibration_error),
        confidence=percent(predictions.mean_confidence),
        reliability_chart=_reliability_chart(predictions),
    )


def _reliability_chart(predictions: Predictions) -> Markup:
    measured = predictions.reliability()
    if len(measured) < FEWEST_BINS:
        return Markup("")
    return line_chart(
        "Accuracy at each confidence",
        [
            Line("measured", measured),
            Line("perfectly calibrated", [(0.0, 0.0), (100.0, 100.0)], 8, "dotted"),
        ],
        note="By tenths of confidence; those with fewer than 10 images are not drawn.",
        unit=" %",
        across=Across("confidence", " %", (0.0, 100.0)),
        newest=False,
    )
