"""Horizontal bars for table cells, as inline SVG; the numbers stand beside them as text."""

from __future__ import annotations

import math

from markupsafe import Markup


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
