"""Line charts as inline SVG.

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

from .curve import Line, Range, curves, extent, settled, share, steps, thinned
from .ticks import nice_ticks, tick_labels
from .words import compact, decimal

COLOURS = 8
_HEIGHT, _SMALL_HEIGHT = 190, 56
_SMALL_POINTS = 125  # more cannot be told apart in a small chart

Fit = Literal["zero", "data", "settled"]


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
    newest: bool = True,
) -> Markup:
    """A figure with title, legend, axes and curves; empty if no line has a finite point.

    The vertical axis holds zero and all points ("zero"), all points ("data"), or the points after
    the first tenth ("settled"; what lies beyond is cut off). The legend gives each line's newest
    value unless `newest` is off.
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
        legend=_legend(lines, unit) if newest else legend(lines),
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


def legend(lines: Sequence[Line]) -> Markup:
    """A legend on its own, for a group of small charts."""
    return _legend([replace(line, points=()) for line in lines], "")


def _legend(lines: Sequence[Line], unit: str) -> Markup:
    entries = []
    for name in dict.fromkeys(line.name for line in lines):
        same = [line for line in lines if line.name == name]
        ends = [line.last for line in same if line.last is not None]
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
