"""Line charts, and bars for table cells, as inline SVG.

Across, positions are percentages; down, they are pixels. So a chart fills whatever width it is
given, on a phone or a wide screen, while its text keeps one readable size. Colours are classes
c1 … c8 that the style sheet defines for light and dark; every string is escaped by Markup.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from markupsafe import Markup

from .words import compact, decimal

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
    the first tenth ("settled"; what lies beyond is cut off). Over steps, the legend gives each
    line's newest value.
    """
    lines = [line for line in lines if line.last is not None]
    if not lines:
        return Markup("")
    x_low, x_high = across.ends or steps(lines)
    y_low, y_high = extent(settled(lines, x_high) if fit == "settled" else lines, 1)
    ticks = nice_ticks(min(y_low, 0.0) if fit == "zero" else y_low, y_high)
    cut = fit == "settled"
    drawn = curves(lines, (x_low, x_high), (ticks[0], ticks[-1]), _HEIGHT, cut=cut)
    return Markup(
        '<figure class="chart"><figcaption><strong>{title}</strong>{note}</figcaption>{legend}'
        '<div class="plot"><svg role="img" aria-label="{described}" width="100%" height="{height}">'
        "<title>{title}</title>{grid}{below}{curves}</svg></div>"
        '<p class="axis">{x_name}</p></figure>'
    ).format(
        title=title,
        note=Markup("<span>{}</span>").format(note) if note else "",
        legend=legend(lines, unit, newest=across is STEPS),
        described=_described(title, lines, unit),
        height=_HEIGHT,
        grid=_y_axis(ticks, unit),
        below=_x_axis(x_low, x_high, across.unit),
        curves=drawn,
        x_name=across.name,
    )


def _y_axis(ticks: list[float], unit: str) -> Markup:
    """A line across and a label for each tick."""
    parts = []
    for tick, label in zip(ticks, tick_labels(ticks, unit), strict=True):
        y = _HEIGHT * (1 - share(tick, ticks[0], ticks[-1]))
        line = Markup(
            '<line class="grid" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
            '<text class="y" x="-8" y="{at:.1f}">{label}</text>'
        )
        parts.append(line.format(y=y, at=y + 4, label=label))
    return Markup("").join(parts)


def _x_axis(low: float, high: float, unit: str) -> Markup:
    """Labels below the chart."""
    parts = []
    for tick in nice_ticks(low, high) if high > low else [low]:
        at = share(tick, low, high)
        if 0 <= at <= 1:
            text = Markup('<text class="x {anchor}" x="{x:.1f}%" y="{y}">{label}</text>')
            anchor = "end" if at > 0.95 else ""
            label = compact(tick) + unit
            parts.append(text.format(x=100 * at, y=_HEIGHT + 18, label=label, anchor=anchor))
    return Markup("").join(parts)


def small_chart(
    title: str,
    lines: Sequence[Line],
    *,
    unit: str = "",
    y_range: Range | None = None,
) -> Markup:
    """One of many: name and newest value above, the two ends of the y axis, no legend."""
    lines = [thinned(line, _SMALL_POINTS) for line in lines if line.last is not None]
    if not lines:
        return Markup("")
    ends = y_range or extent(lines, 1)
    if not ends[1] > ends[0]:
        ends = (nice_ticks(*ends)[0], nice_ticks(*ends)[-1])
    grid = Markup("").join(
        Markup(
            '<line class="grid" x1="0" x2="100%" y1="{y}" y2="{y}"/>'
            '<text class="y" x="-6" y="{at}">{label}</text>'
        ).format(y=y, at=y + 4, label=decimal(end) + unit)
        for end, y in zip(ends, (_SMALL_HEIGHT, 0), strict=True)
    )
    return Markup(
        '<figure class="small"><figcaption><span class="name">{title}</span> <b>{last}</b>'
        '</figcaption><div class="plot"><svg role="img" aria-label="{described}" width="100%" '
        'height="{height}"><title>{title}</title>{grid}{curves}</svg></div></figure>'
    ).format(
        title=title,
        last=decimal(lines[0].last) + unit,
        described=_described(title, lines, unit),
        height=_SMALL_HEIGHT,
        grid=grid,
        curves=curves(lines, steps(lines), ends, _SMALL_HEIGHT),
    )


def legend(lines: Sequence[Line], unit: str = "", *, newest: bool = False) -> Markup:
    """Key and name of each line, with the mean of the newest values of its name if wanted."""
    entries = []
    for name in dict.fromkeys(line.name for line in lines):
        same = [line for line in lines if line.name == name]
        ends = [line.last for line in same if newest and line.last is not None]
        value = decimal(sum(ends) / len(ends)) + unit if ends else ""
        entries.append(
            Markup(
                '<li><svg class="key" aria-hidden="true" width="22" height="10"><line class="c{} '
                '{} line" x1="1" x2="21" y1="5" y2="5"/></svg><span class="name">{}</span> '
                "<b>{}</b></li>"
            ).format(same[0].colour, same[0].style, name, value)
        )
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(entries))


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
    paths = Markup("").join(
        Markup('<path class="c{} {} line{}" d="{}"/>').format(
            line.colour,
            line.style,
            " lone" if line.lone else "",
            _path(line, x_range, y_range, height),
        )
        for line in lines
    )
    return Markup(
        '<svg width="100%" height="{h}" viewBox="0 0 {w} {h}" preserveAspectRatio="none" '
        'overflow="{overflow}">{paths}</svg>'
    ).format(w=_WIDTH, h=height, overflow="hidden" if cut else "visible", paths=paths)


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
    mark = Markup("")
    if other is not None and math.isfinite(other):
        mark = Markup(
            '<rect class="mark" x="{:.1f}%" width="2" height="14" transform="translate(-1)"/>'
        ).format(100 * _within_one(other / 100))
    length = 100 * _within_one(percent / 100) if math.isfinite(percent) else 0.0
    return Markup(
        '<svg class="bar" aria-hidden="true" width="100%" height="14">'
        '<rect class="track" y="3" width="100%" height="8"/>'
        '<rect class="c1 fill" y="3" width="{:.1f}%" height="8"/>{}</svg>'
    ).format(length, mark)


def gap_bar(value: float, limit: float) -> Markup:
    """A bar from the middle: to the right above zero, to the left below."""
    length = 50 * _within_one(abs(value) / limit) if limit > 0 and math.isfinite(value) else 0.0
    start, colour = (50.0, 2) if value > 0 else (50 - length, 1)
    return Markup(
        '<svg class="bar" aria-hidden="true" width="100%" height="14">'
        '<rect class="track" y="3" width="100%" height="8"/>'
        '<rect class="c{} fill" x="{:.1f}%" y="3" width="{:.1f}%" height="8"/>'
        '<rect class="mark" x="50%" width="1" height="14"/></svg>'
    ).format(colour, start, length)


def _within_one(value: float) -> float:
    return min(max(value, 0.0), 1.0)
