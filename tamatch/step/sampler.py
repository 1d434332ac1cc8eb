"""Which images a step sees: a pure function of (seed, step), with nothing to save."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio, as in splitmix64


def mix64(x: U64) -> U64:
    """The finaliser of splitmix64: every bit of the input moves every bit of the output."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def stream_key(*numbers: int) -> int:
    """One 64-bit number from several: the key of an independent random stream."""
    key = np.zeros(1, np.uint64)  # an array: of a single number NumPy reports the overflow
    for number in numbers:
        key = mix64(key + GOLDEN + np.uint64(number & (2**64 - 1)))
    return int(key[0])


def permutation(count: int, key: int) -> npt.NDArray[np.int64]:
    """A random order of 0 … count-1. Our own, since NumPy may change its stream some day."""
    ranks = mix64(np.arange(count, dtype=np.uint64) * GOLDEN + np.uint64(key))
    return np.argsort(ranks, kind="stable")


def independent(at: npt.NDArray[np.int64], count: int, key: int) -> npt.NDArray[np.int64]:
    """For each place in the stream of draws a number in 0 … count-1, by its hash alone."""
    drawn = mix64(at.astype(np.uint64) * GOLDEN + np.uint64(key))
    return (drawn >> np.uint64(11)).astype(np.int64) % count


class Sampler:
    """Walks through a pool pass after pass, each pass a fresh permutation without replacement.

    With `replacement` every place of a batch draws for itself, as if all others did not exist.
    `slots` are the places in a step's batch that this process fills; all of them, if it is alone.
    """

    def __init__(
        self,
        count: int,
        batch: int,
        seed: int,
        stream: int,
        slots: range | None = None,
        *,
        replacement: bool = False,
    ) -> None:
        self.replacement = replacement
        self.count, self.batch, self.seed, self.stream = count, batch, seed, stream
        self.slots = range(batch) if slots is None else slots
        self._order: tuple[int, npt.NDArray[np.int64]] = (-1, np.empty(0, np.int64))

    def ids(self, step: int, steps: int) -> npt.NDArray[np.int64]:
        """(steps, slots): the positions in the pool that each of these steps sees."""
        if not self.count:  # of a method that does not look at this pool
            return np.zeros((steps, len(self.slots)), np.int64)
        at = np.arange(step * self.batch, (step + steps) * self.batch)
        ids = self._drawn(at) if self.replacement else self._walked(at)
        return ids.reshape(steps, self.batch)[:, self.slots.start : self.slots.stop]

    def _drawn(self, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return independent(at, self.count, stream_key(self.seed, self.stream))

    def _walked(self, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        ids = np.empty_like(at)
        passes = at // self.count
        for number in range(int(passes[0]), int(passes[-1]) + 1):
            here = passes == number
            ids[here] = self._pass(number)[at[here] % self.count]
        return ids

    def _pass(self, number: int) -> npt.NDArray[np.int64]:
        if self._order[0] != number:
            key = stream_key(self.seed, self.stream, number)
            self._order = (number, permutation(self.count, key))
        return self._order[1]
