"""Independent work side by side on the CPU's cores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

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


class SingleBlas:
    """A context in which the BLAS of NumPy and SciPy has one thread, also for several at once.

    Their matrices here are small. The number is that of the whole process, so the first to enter
    sets it and the last to leave restores it.
    """

    def __init__(self) -> None:
        self.lock, self.inside = threading.Lock(), 0

    @cached_property
    def libraries(self) -> ThreadpoolController:
        """Those that are loaded, which takes a few milliseconds to find out."""
        return ThreadpoolController()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            if not self.inside:
                self.limit = self.libraries.limit(limits=1, user_api="blas")
                self.limit.__enter__()
            self.inside += 1
        try:
            yield
        finally:
            with self.lock:
                self.inside -= 1
                if not self.inside:
                    self.limit.__exit__(None, None, None)


single_blas = SingleBlas()
