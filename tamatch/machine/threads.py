"""Independent work side by side on the CPU's cores."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from .precision import restoring_threads

Part = TypeVar("Part")
Made = TypeVar("Made")


def side_by_side(work: Callable[[Part], Made], parts: Iterable[Part]) -> list[Made]:
    """What `work` makes of each part, as many at a time as torch has threads, each on one of them.

    All threads on one part would wait for each other after each operation: on two quiet cores that
    costs a tenth, and where another program keeps one of them busy, it takes ten times as long.
    """
    count = torch.get_num_threads()
    with restoring_threads(), single_blas(), ThreadPoolExecutor(count, "", _one) as pool:
        return list(pool.map(work, parts))


def _one() -> None:
    """Each thread of Python has a number of torch's threads of its own."""
    torch.set_num_threads(1)


def single_blas() -> AbstractContextManager[Any]:
    """Let the BLAS of NumPy and SciPy use one thread, in all threads of Python.

    For small matrices it would wait for its others several times a step of a solver.
    """
    limit: AbstractContextManager[Any] = _libraries("scipy.linalg" in sys.modules).limit(
        limits=1, user_api="blas"
    )
    return limit


@cache
def _libraries(with_scipy: bool) -> ThreadpoolController:
    """Those that are loaded, which takes a few milliseconds to find out; SciPy brings its own."""
    return ThreadpoolController()
