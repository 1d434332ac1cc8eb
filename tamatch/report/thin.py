"""Thin a stream of unknown length to a bounded number of evenly spaced items."""

from __future__ import annotations

from typing import Generic, TypeVar

Item = TypeVar("Item")


class Thinned(Generic[Item]):
    """Holds fewer than `2 * keep` items: every `stride`-th seen so far, and always the last.

    When full it forgets every other item and doubles its stride, so the items stay evenly spaced
    and a stream of any length costs the same memory.
    """

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.stride = 1
        self.seen = 0
        self._kept: list[Item] = []
        self._last: list[Item] = []

    def add(self, item: Item) -> None:
        """Show one more item of the stream."""
        self._last = []
        if self.seen % self.stride == 0:
            self._kept.append(item)
            if len(self._kept) == 2 * self.keep:
                self._last = [item]
                del self._kept[1::2]
                self.stride *= 2
        else:
            self._last = [item]
        self.seen += 1

    def items(self) -> list[Item]:
        """What is held, in the order of the stream."""
        return self._kept + self._last
