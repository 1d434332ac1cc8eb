"""Several seeds, as a user names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import UsageError


def read_seeds(given: Sequence[int] | str) -> list[int]:
    """`--seeds 0,1,2`, or the numbers themselves."""
    if not isinstance(given, Iterable):
        raise UsageError(
            f"seeds takes a list of whole numbers, such as [0, 1, 2]; got {given!r}. For one seed, "
            "use train(seed=0)."
        )
    words = given.split(",") if isinstance(given, str) else [*map(str, given)]
    if not words or not all(word.strip().isdecimal() for word in words):
        raise UsageError(
            f"--seeds takes comma-separated whole numbers, such as 0,1,2; got {given!r}."
        )
    seeds = [*map(int, words)]
    if twice := [seed for seed in seeds if seeds.count(seed) > 1]:
        raise UsageError(f"--seeds lists {twice[0]} twice.")
    return seeds
