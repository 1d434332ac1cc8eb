"""Show a few of many: the lowest and the highest, the rest in a fold-out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

MANY = 12  # beyond this many classes, only the ends of a ranking are shown at first
ENDS = 5
LISTED = 1000  # the fold-out lists no more, to keep the page small

Item = TypeVar("Item")


@dataclass(frozen=True)
class Ranking(Generic[Item]):
    """Items from lowest to highest; of many, `low` and `high` are the ends."""

    everything: list[Item]

    @property
    def folded(self) -> bool:
        """Whether there are too many to show at once."""
        return len(self.everything) > MANY

    @property
    def low(self) -> list[Item]:
        """The items shown first: all of them, or the lowest few."""
        return self.everything[:ENDS] if self.folded else self.everything

    @property
    def high(self) -> list[Item]:
        """The highest few, where `low` is not already everything."""
        return self.everything[-ENDS:] if self.folded else []

    @property
    def shown(self) -> list[Item]:
        """Both ends, or everything."""
        return self.low + self.high

    @property
    def listed(self) -> list[Item]:
        """What the fold-out holds."""
        return self.everything[:LISTED]


def rank(items: Sequence[Item], key: Callable[[Item], float]) -> Ranking[Item]:
    """Sort from lowest to highest; NaN comes last."""
    return Ranking(sorted(items, key=lambda item: (math.isnan(key(item)), key(item))))
