"""The section on the use of unlabelled images: how many, of which classes, with what weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from .album import Album, album, first_rows
from .bars import bar
from .classtables import ClassRow
from .curve import Line
from .metrics import Log, Points
from .ranking import Ranking, rank
from .svg import Across, line_chart, small_chart
from .trust import PoolScores
from .words import count, percent


@dataclass(frozen=True)
class Usage:
    """What the template shows of it; anything the method does not log is empty."""

    used_chart: Markup
    weight_chart: Markup
    charts: list[Markup]
    rows: Ranking[ClassRow]
    sweep_chart: Markup
    sweep: list[tuple[str, ...]]  # header and rows
    never: str  # a sentence on the images that were never accepted; empty if that is not known
    album: Album


def usage_of(log: Log, names: Sequence[str], pool: PoolScores | None, run: Path) -> Usage:
    """Rank the classes by the share of their images that was accepted last."""
    never = pool.never_accepted if pool else None
    pictures = first_rows(run / "never_accepted.csv") if never else []
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
        sweep_chart=_sweep_chart(pool) if pool else Markup(""),
        sweep=_sweep(pool) if pool and pool.sweep else [],
        never="" if pool is None or never is None else _never(pool, never),
        album=album("Never accepted, least confident first", "never_accepted", pictures, run),
    )


def _sweep(pool: PoolScores) -> list[tuple[str, ...]]:
    known = any(level.precision is not None for level in pool.sweep)
    rows: list[tuple[str, ...]] = [
        ("threshold τ", "used", "images", *(("correct",) if known else ()))
    ]
    for level in pool.sweep:
        own = " (this run)" if level.tau == pool.tau else ""
        right = (percent(level.precision),) if known else ()
        rows.append((f"{level.tau:g}{own}", percent(level.used), count(level.images), *right))
    return rows


def _sweep_chart(pool: PoolScores) -> Markup:
    lines = [
        Line("used", [(level.tau, level.used) for level in pool.sweep]),
        Line(
            "of these, correct",
            [
                (level.tau, math.nan if (p := level.precision) is None else p)
                for level in pool.sweep
            ],
            3,
            "dashed",
        ),
    ]
    return line_chart(
        "What other thresholds would accept",
        lines,
        note="Of the unlabelled images without augmentation, by the net at the end of training.",
        unit=" %",
        across=Across("threshold τ"),
        newest=False,
    )


def _never(pool: PoolScores, never: int) -> str:
    unseen = pool.images - pool.drawn
    rest = f" {count(unseen)} more were never drawn: the run was too short." if unseen else ""
    if never == 0:
        return f"Every unlabelled image that was drawn was accepted at least once.{rest}"
    return (
        f"{count(never)} of {count(pool.images)} unlabelled images "
        f"({percent(100 * never / pool.images)}) were never accepted in training; "
        f"never_accepted.csv lists them.{rest}"
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
        Line("mean", _where_used(log, "weight")),
        Line("largest", _where_used(log, "max_weight"), 2, "dashed"),
    ]
    note = "1 is unweighted. The axis is scaled to the run after its first tenth."
    return line_chart("Weight of accepted pseudo-labels", lines, note=note, fit="settled")


def _where_used(log: Log, name: str) -> Points:
    """A curve of the accepted pseudo-labels, which breaks where there are none."""
    curve = log.curve(name)
    unused = {row.step for row in log.rows if row.scalars.get("used") == 0}
    return [(step, math.nan if step in unused else value) for step, value in curve]
