"""Narrow what JSON gave us: a field that is missing or of another type becomes None or empty."""

from __future__ import annotations

import math
from typing import cast


def number(value: object) -> float | None:
    """The value as a finite float, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        converted = float(value)
    except OverflowError:
        return None
    return converted if math.isfinite(converted) else None


def whole(value: object) -> int | None:
    """The value as an int, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def numbers(value: object) -> list[float]:
    """A list of numbers, NaN where an entry is none; empty if the value is no list of numbers."""
    if not isinstance(value, list) or not any(number(entry) is not None for entry in value):
        return []
    return [math.nan if (found := number(entry)) is None else found for entry in value]


def table(value: object) -> dict[str, object]:
    """A JSON object, or an empty one."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def text(value: object, default: str = "") -> str:
    """A scalar in words; `default` for a missing value."""
    if value is None:
        return default
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(text(entry, "none") for entry in value)
    return str(value)
