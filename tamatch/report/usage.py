"""The section on the use of unlabelled images: how many, of which classes, with what weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .bars import bar
from .classtables import ClassRow
from .curve import Line
from .metrics import Log, Points
from .ranking import Ranking, rank
from .svg import line_chart, small_chart
from .words import percent


@dataclass(frozen=True)
class Usage:
    """What the template shows of it; anything the method does not log is empty."""

    used_chart: Markup
    weight_chart: Markup
    charts: list[Markup]
    rows: Ranking[ClassRow]


def usage_of(log: Log, names: Sequence[str]) -> Usage:
    """Rank the classes by the share of their images that was accepted last."""
    curves = [(name, utilization_curve(log, index)) for index, name in enumerate(names)]
    ranking = rank([one for one in curves if one[1]], key=lambda one: _newest(one[1]))
    return Usage(
        used_chart=_used_chart(log),
        weight_chart=_weight_chart(log),
        charts=[
            small_chart(name, [Line(name, curve)], unit=" %", y_range=(0, 100))
            for name, curve in ranking.shown
        ],
        rows=Ranking(
            [
                ClassRow(name, (percent(_newest(curve)),), bar(_newest(curve)))
                for name, curve in ranking.everything
            ]
        ),
    )


def utilization_curve(log: Log, index: int) -> Points:
    """Accepted over predicted, in percent, of one class; NaN where it was never predicted."""
    curve: Points = []
    for row in log.rows:
        used = row.vectors.get("used_by_class", [])
        predicted = row.vectors.get("predicted_by_class", [])
        if index < min(len(used), len(predicted)):
            ratio = used[index] / predicted[index] if predicted[index] > 0 else math.nan
            curve.append((row.step, 100 * ratio))
    return curve


def _newest(curve: Points) -> float:
    return next((y for _, y in reversed(curve) if math.isfinite(y)), math.nan)


def _used_chart(log: Log) -> Markup:
    return line_chart(
        "Share of unlabelled images used",
        [Line("all classes", log.curve("used", 100))],
        note="Accepted pseudo-labels over batch size.",
        unit=" %",
    )


def _weight_chart(log: Log) -> Markup:
    lines = [
        Line("mean", log.curve("weight")),
        Line("largest", log.curve("max_weight"), 2, "dashed"),
    ]
    note = "1 is unweighted. The axis is fitted to the run after its first tenth."
    return line_chart("Weight of accepted pseudo-labels", lines, note=note, fit="settled")
