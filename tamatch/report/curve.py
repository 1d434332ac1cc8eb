"""Curves: from points to SVG paths in a box that is stretched to the width it is given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

_WIDTH = 1000  # inner units across; stretched to the real width

Range = tuple[float, float]


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
        """Whether it is one point, which is drawn as a dot that can be seen."""
        return sum(math.isfinite(y) for _, y in self.points) == 1


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
    """Where a value lies between two others, as a share of the way; the middle if they are one."""
    return (value - low) / (high - low) if high > low else 0.5
