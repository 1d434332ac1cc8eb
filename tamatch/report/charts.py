"""The curves of one run, each a figure of its own; empty where the run logged no such thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from .curve import Line
from .facts import Figures
from .folder import RunFiles
from .metrics import Log
from .svg import line_chart, small_chart

OTHERS = 60  # further quantities that are drawn, at most
_DRAWN_ELSEWHERE = {"total", "sup", "unsup", "lr", "used", "weight", "max_weight"}


def error_charts(lines: Sequence[Line], measured_on: str) -> list[Markup]:
    """The whole run and, enlarged, its second half, where the runs differ by little."""
    name = f"{measured_on.capitalize()} error"
    charts = [line_chart(f"{name}, whole run", lines, unit=" %")]
    end = max((x for line in lines for x, _ in line.points), default=0.0)
    late = [
        replace(line, points=[point for point in line.points if point[0] >= end / 2])
        for line in lines
    ]
    if any(len(line.points) >= 4 for line in late):
        note = "Enlarged: the axis may not start at zero."
        charts.append(line_chart(f"{name}, second half", late, unit=" %", fit="data", note=note))
    return [chart for chart in charts if chart]


def error_lines(run: RunFiles, facts: Figures, baseline: Figures | None) -> list[Line]:
    """The method solid, the baseline dashed; the validation error too where there are both."""
    kind = facts.measured_on
    lines = [Line(facts.method, run.metrics.of(kind).curve("error"))]
    if run.baseline is not None and baseline is not None:
        curve = run.baseline.metrics.of(kind).curve("error")
        lines.append(Line(f"{baseline.method} (baseline)", curve, 2, "dashed"))
    if kind == "test":
        curve = run.metrics.of("validation").curve("error")
        lines.append(Line(f"{facts.method}, validation", curve, 3, "dotted"))
    return lines


def loss_charts(log: Log) -> list[Markup]:
    """Losses, and the learning rate beside them."""
    losses = [
        Line("total", log.curve("total"), 8),
        Line("labelled", log.curve("sup"), 1, "dashed"),
        Line("unlabelled", log.curve("unsup"), 2, "dotted"),
    ]
    charts = [
        line_chart("Losses", losses),
        line_chart("Learning rate", [Line("learning rate", log.curve("lr"))]),
    ]
    return [chart for chart in charts if chart]


def other_charts(log: Log) -> list[Markup]:
    """Whatever else the method logs."""
    names = [name for name in log.scalar_names() if name not in _DRAWN_ELSEWHERE]
    return [small_chart(name, [Line(name, log.curve(name))]) for name in names[:OTHERS]]
