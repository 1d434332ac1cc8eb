"""The section on mistakes: which classes are confused, and how far confidence can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from .album import Album, album
from .confusion import Cell, confusion_rows, frequent
from .curve import Line
from .svg import Across, line_chart
from .trust import Held, ReliabilityCurve
from .words import UNKNOWN, decimal, percent

FREQUENT = 15  # mistakes listed where a matrix would be too large
FEWEST_BINS = 3  # a curve of fewer points says nothing


@dataclass(frozen=True)
class Mistakes:
    """What the template shows of it; the matrix is empty for many classes."""

    images: int
    matrix: list[tuple[str, list[Cell]]]
    long_names: bool  # too long to stand above narrow columns
    frequent: list[tuple[str, str, int]]  # true, predicted, images
    calibration: list[tuple[str, ...]]  # header and rows
    temperature: str  # a sentence on where it comes from, or why there is none
    reliability_chart: Markup
    albums: list[Album]


def mistakes_of(held: Held | None, names: Sequence[str], run: Path) -> Mistakes | None:
    """All that is known of the mistakes; None where no label was held out."""
    if held is None:
        return None
    return Mistakes(
        images=held.images,
        matrix=confusion_rows(held.pairs, names),
        long_names=max(map(len, names), default=0) > 3,
        frequent=frequent(held.pairs, names, FREQUENT),
        calibration=_calibration(held.before, held.after),
        temperature=_temperature(held),
        reliability_chart=_reliability_chart(held),
        albums=[
            album(
                "Wrong with the highest confidence", "confident_wrong", held.confident_wrong, run
            ),
            album("Least confident", "doubtful", held.doubtful, run),
        ],
    )


def _calibration(before: ReliabilityCurve, after: ReliabilityCurve | None) -> list[tuple[str, ...]]:
    columns = {"uncalibrated": before} | ({"with the temperature": after} if after else {})
    return [
        ("", *columns),
        ("mean confidence", *(percent(one.confidence) for one in columns.values())),
        ("expected calibration error", *(percent(one.error) for one in columns.values())),
    ]


def _temperature(held: Held) -> str:
    if held.temperature is None:
        return f"No temperature was fitted: {held.reason or UNKNOWN}."
    how = f" ({held.reason})" if held.reason else ""
    return (
        f"A temperature of {decimal(held.temperature)} was fitted on {held.fitted_on} validation "
        f"images{how}; predict, label and exported models use it."
    )


def _reliability_chart(held: Held) -> Markup:
    lines = [Line("uncalibrated", held.before.curve)]
    if held.after is not None:
        lines.append(Line("with the temperature", held.after.curve, 3, "dashed"))
    if max(len(line.points) for line in lines) < FEWEST_BINS:
        return Markup("")
    return line_chart(
        "Accuracy at each confidence",
        [*lines, Line("perfectly calibrated", [(0.0, 0.0), (100.0, 100.0)], 8, "dotted")],
        note="In bins of 10 % confidence; bins with fewer than 10 images are not drawn.",
        unit=" %",
        across=Across("confidence", " %", (0.0, 100.0)),
        newest=False,
    )
