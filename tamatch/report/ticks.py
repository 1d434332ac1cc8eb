"""Round numbers for axes."""

from __future__ import annotations

import math

from .words import decimal

_FLAT = 1e-4  # a range that is smaller than this share of its values is no news


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
