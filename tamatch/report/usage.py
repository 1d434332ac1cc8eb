"""The section on the use of unlabelled images: how many, of which classes, with what weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from .album import album, first_rows
from .classes import ClassRow, Ranking, rank
from .metrics import Log, Points
from .svg import Across, Line, bar, line_chart, small_chart
from .trust import PoolScores
from .words import count, percent


def usage_of(log: Log, names: Sequence[str], pool: PoolScores | None, run: Path) -> dict[str, Any]:
    """What the template shows of it; anything the method does not log is empty."""
    never = pool.never_accepted if pool else None
    pictures = first_rows(run / "never_accepted.csv") if never else []
    curves = [Line(name, utilization_curve(log, index)) for index, name in enumerate(names)]
    ranking = rank([line for line in curves if line.points], key=_newest)
    rows = [
        ClassRow(line.name, (percent(_newest(line)),), bar(_newest(line)))
        for line in ranking.everything
    ]
    return {
        "used_chart": _used_chart(log),
        "weight_chart": _weight_chart(log),
        "charts": [
            small_chart(line.name, [line], unit=" %", y_range=(0, 100)) for line in ranking.shown
        ],
        "rows": Ranking(rows),
        "sweep_chart": _sweep_chart(pool) if pool else Markup(""),
        "sweep": _sweep(pool) if pool and pool.sweep else [],
        "never": "" if pool is None or never is None else _never(pool, never),
        "album": album("never_accepted", pictures, run),
    }


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


def _newest(line: Line) -> float:
    return math.nan if line.last is None else line.last


def _used_chart(log: Log) -> Markup:
    return line_chart(
        "Share of unlabelled images used",
        [Line("all classes", log.curve("used", 100))],
        note="Accepted pseudo-labels over batch size.",
        unit=" %",
    )


def _weight_chart(log: Log) -> Markup:
    """The curves break where no pseudo-label was accepted."""
    unused = {row.step for row in log.rows if row.scalars.get("used") == 0}
    mean, largest = (
        [(step, math.nan if step in unused else value) for step, value in log.curve(name)]
        for name in ("weight", "max_weight")
    )
    lines = [Line("mean", mean), Line("largest", largest, 2, "dashed")]
    note = "1 is unweighted. The axis is scaled to the run after its first tenth."
    return line_chart("Weight of accepted pseudo-labels", lines, note=note, fit="settled")


def _sweep(pool: PoolScores) -> list[tuple[str, ...]]:
    """Header and rows of what other thresholds would accept."""
    known = any(level.precision is not None for level in pool.sweep)
    rows = [("threshold τ", "used", "images", *["correct"] * known)]
    for level in pool.sweep:
        own = " (this run)" if level.tau == pool.tau else ""
        right = [percent(level.precision)] * known
        rows.append((f"{level.tau:g}{own}", percent(level.used), count(level.images), *right))
    return rows


def _sweep_chart(pool: PoolScores) -> Markup:
    right = [(one.tau, math.nan if (p := one.precision) is None else p) for one in pool.sweep]
    lines = [
        Line("used", [(level.tau, level.used) for level in pool.sweep]),
        Line("of these, correct", right, 3, "dashed"),
    ]
    return line_chart(
        "What other thresholds would accept",
        lines,
        note="Of the unlabelled images without augmentation, by the net at the end of training.",
        unit=" %",
        across=Across("threshold τ"),
    )


def _never(pool: PoolScores, never: int) -> str:
    """A sentence on the images that were never accepted."""
    unseen = pool.images - pool.drawn
    rest = f" {count(unseen)} more were never drawn: the run was too short." if unseen else ""
    if never == 0:
        return f"Every unlabelled image that was drawn was accepted at least once.{rest}"
    return (
        f"{count(never)} of {count(pool.images)} unlabelled images "
        f"({percent(100 * never / pool.images)}) were never accepted in training; "
        f"never_accepted.csv lists them.{rest}"
    )
