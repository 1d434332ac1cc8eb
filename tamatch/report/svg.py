"""Line charts, and bars for table cells, as inline SVG.

Across, positions are percentages; down, they are pixels: a chart fills any width, and its text
keeps one size. The style sheet has the colours c1 … c8; Markup escapes every string.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from markupsafe import Markup

from .words import compact, decimal, environment

COLOURS = 8
_WIDTH = 1000  # inner units across; stretched to the real width
_HEIGHT, _SMALL_HEIGHT = 190, 56
_SMALL_POINTS = 125  # more cannot be told apart in a small chart
_FLAT = 1e-4  # a range smaller than this share of its values counts as none

Range = tuple[float, float]
Fit = Literal["zero", "data", "settled"]


@dataclass(frozen=True)
class Line:
    """One curve. Lines of the same name share one entry in the legend."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int = 1
    style: str = "solid"  # or "dashed", "dotted": colour is never the only difference

    @property
    def last(self) -> float | None:
        """The newest finite value."""
        return next((y for _, y in reversed(self.points) if math.isfinite(y)), None)

    @property
    def lone(self) -> bool:
        """Whether it has one finite point, which is drawn as a dot."""
        return sum(math.isfinite(y) for _, y in self.points) == 1


@dataclass(frozen=True)
class Across:
    """The horizontal axis; its ends are those of the lines unless they are given."""

    name: str = "step"
    unit: str = ""
    ends: Range | None = None


STEPS = Across()


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    note: str = "",
    unit: str = "",
    fit: Fit = "zero",
    across: Across = STEPS,
) -> Markup:
    """A figure with title, legend, axes and curves; empty if no line has a finite point.

    The vertical axis holds zero and all points ("zero"), all points ("data"), or the points after
    the first tenth ("settled"; the rest is cut off). Over steps, the legend has the newest values.
    """
    lines = [line for line in lines if line.last is not None]
    if not lines:
        return Markup("")
    x_low, x_high = across.ends or steps(lines)
    y_low, y_high = extent(settled(lines, x_high) if fit == "settled" else lines, 1)
    ticks = nice_ticks(min(y_low, 0.0) if fit == "zero" else y_low, y_high)
    cut = fit == "settled"
    labels = tick_labels(ticks, unit)
    across_ticks = nice_ticks(x_low, x_high) if x_high > x_low else [x_low]
    below = [(100 * share(x, x_low, x_high), compact(x) + across.unit) for x in across_ticks]
    return _drawn(
        "line_chart",
        title=title,
        note=note,
        key=legend(lines, unit, newest=across is STEPS),
        described=_described(title, lines, unit),
        height=_HEIGHT,
        ticks=[
            (_HEIGHT * (1 - share(tick, ticks[0], ticks[-1])), label)
            for tick, label in zip(ticks, labels, strict=True)
        ],
        below=[(x, label) for x, label in below if 0 <= x <= 100],
        curves=curves(lines, (x_low, x_high), (ticks[0], ticks[-1]), _HEIGHT, cut=cut),
        across=across.name,
    )


def small_chart(
    title: str, lines: Sequence[Line], *, unit: str = "", y_range: Range | None = None
) -> Markup:
    """One of many: name and newest value above, the two ends of the y axis, no legend."""
    lines = [thinned(line, _SMALL_POINTS) for line in lines if line.last is not None]
    if not lines:
        return Markup("")
    ends = y_range or extent(lines, 1)
    if not ends[1] > ends[0]:
        ends = (nice_ticks(*ends)[0], nice_ticks(*ends)[-1])
    return _drawn(
        "small_chart",
        title=title,
        last=decimal(lines[0].last) + unit,
        described=_described(title, lines, unit),
        height=_SMALL_HEIGHT,
        ticks=[(_SMALL_HEIGHT, decimal(ends[0]) + unit), (0, decimal(ends[1]) + unit)],
        curves=curves(lines, steps(lines), ends, _SMALL_HEIGHT),
    )


def legend(lines: Sequence[Line], unit: str = "", *, newest: bool = False) -> Markup:
    """Key and name of each line, with the mean of the newest values of its name if wanted."""
    entries = []
    for name in dict.fromkeys(line.name for line in lines):
        same = [line for line in lines if line.name == name]
        ends = [line.last for line in same if newest and line.last is not None]
        entries.append((same[0], decimal(sum(ends) / len(ends)) + unit if ends else ""))
    return _drawn("legend", entries=entries)


def _described(title: str, lines: Sequence[Line], unit: str) -> str:
    """What a screen reader says: where each line begins and ends."""
    parts = []
    for line in lines[:12]:
        finite = [y for _, y in line.points if math.isfinite(y)]
        parts.append(f"{line.name} from {decimal(finite[0])}{unit} to {decimal(finite[-1])}{unit}")
    return f"{title}: {'; '.join(parts)}."


def curves(
    lines: Sequence[Line], x_range: Range, y_range: Range, height: int, *, cut: bool = False
) -> Markup:
    """The lines as paths; `cut` hides what lies outside the box."""
    paths = [(line, _path(line, x_range, y_range, height)) for line in lines]
    overflow = "hidden" if cut else "visible"
    return _drawn("curves", width=_WIDTH, height=height, overflow=overflow, paths=paths)


def _path(line: Line, x_range: Range, y_range: Range, height: int) -> str:
    """Line pieces between gaps; "h0" makes a lone point visible as a dot."""
    pieces: list[str] = []
    drawing = False
    for x, y in line.points:
        if math.isfinite(y):
            across = _WIDTH * share(x, *x_range)
            down = height * (1 - share(y, *y_range))
            pieces.append(f"L{across:.0f} {down:.1f}" if drawing else f"M{across:.0f} {down:.1f}h0")
        drawing = math.isfinite(y)
    return "".join(pieces)


def thinned(line: Line, most: int) -> Line:
    """Every n-th point counted from the end, so that the newest stays."""
    fewer = replace(line, points=line.points[:: -(1 + len(line.points) // most)][::-1])
    return line if fewer.last is None else fewer


def settled(lines: Sequence[Line], end: float) -> Sequence[Line]:
    """The lines without the first tenth of the run, or as they are if nothing would be left."""
    late = [replace(line, points=[p for p in line.points if p[0] > end / 10]) for line in lines]
    late = [line for line in late if line.last is not None]
    return late or lines


def extent(lines: Sequence[Line], axis: int) -> Range:
    """Least and greatest x (axis 0) or y (axis 1) of the finite points."""
    values = [point[axis] for line in lines for point in line.points if math.isfinite(point[1])]
    return min(values), max(values)


def steps(lines: Sequence[Line]) -> Range:
    """First and last x; from zero where the first is near it, so that charts line up."""
    low, high = extent(lines, 0)
    return (0.0 if 0 < low <= 0.1 * high else low), high


def share(value: float, low: float, high: float) -> float:
    """Where a value lies between two others, from 0 to 1; the middle if these are equal."""
    return (value - low) / (high - low) if high > low else 0.5


def nice_ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """About `wanted` round values, the first at most `low`, the last at least `high`."""
    size = max(abs(low), abs(high))
    if high - low <= _FLAT * size or size < 1e-290:
        low, high = (low - size / 2, high + size / 2) if size > 1e-290 else (0.0, 1.0)
    rough = high / wanted - low / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def tick_labels(ticks: list[float], unit: str = "") -> list[str]:
    """Labels of equally spaced ticks, all with the digits that their spacing needs."""
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    if step < 5e-4 or max(abs(tick) for tick in ticks) >= 1e5:
        labels = [decimal(tick) + unit for tick in ticks]
        if len({*labels}) == len(labels):
            return labels
    digits = next((d for d in range(6) if abs(round(step, d) - step) < 1e-9), 6)
    return [f"{tick:.{digits}f}".replace("-", "−") + unit for tick in ticks]


def bar(percent: float, other: float | None = None) -> Markup:
    """A bar from the left, with a mark where `other` lies; both in percent."""
    mark = None
    if other is not None and math.isfinite(other):
        mark = 100 * _within_one(other / 100)
    length = 100 * _within_one(percent / 100) if math.isfinite(percent) else 0.0
    return _drawn("bar", colour=1, start=None, length=length, mark=mark)


def gap_bar(value: float, limit: float) -> Markup:
    """A bar from the middle: to the right above zero, to the left below."""
    length = 50 * _within_one(abs(value) / limit) if limit > 0 and math.isfinite(value) else 0.0
    start, colour = (50.0, 2) if value > 0 else (50 - length, 1)
    return _drawn("bar", colour=colour, start=start, length=length, mark=None)


def _within_one(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _drawn(macro: str, **values: object) -> Markup:
    """The markup of a macro in charts.html.j2."""
    template = environment("tamatch.report").get_template("charts.html.j2")
    return Markup(getattr(template.module, macro)(**values))
