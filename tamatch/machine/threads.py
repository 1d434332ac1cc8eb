"""Independent work side by side on the CPU's cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from .precision import restoring_threads

Part = TypeVar("Part")
Made = TypeVar("Made")


def side_by_side(work: Callable[[Part], Made], parts: Iterable[Part]) -> list[Made]:
    """What `work` makes of each part, as many at a time as torch has threads, each on one of them.

    All threads on one part would wait for each other after each operation: on two quiet cores that
    costs a tenth, and where another program keeps one of them busy, it takes ten times as long.
    """
    with restoring_threads(), ThreadPoolExecutor(torch.get_num_threads(), "", _one) as pool:
        return list(pool.map(work, parts))


def _one() -> None:
    """Each thread of Python has a number of torch's threads of its own."""
    torch.set_num_threads(1)
