"""Independent work on the CPU's cores."""

from __future__ import annotations

import threading

import pytest
import scipy.linalg  # type: ignore[import-untyped]  # noqa: F401  a BLAS of its own
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from tamatch.machine.threads import side_by_side, single_blas


def test_parts_are_worked_on_at_the_same_time_each_on_one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    both = threading.Barrier(2, timeout=60)  # passed only if two parts are there at once

    def work(part: int) -> tuple[int, int]:
        both.wait()
        return part, torch.get_num_threads()

    try:
        assert side_by_side(work, range(4)) == [(0, 1), (1, 1), (2, 1), (3, 1)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_error_ends_it() -> None:
    def work(part: int) -> int:
        return 1 // part

    with pytest.raises(ZeroDivisionError):
        side_by_side(work, [1, 0])
    assert side_by_side(work, []) == []


def blas_threads() -> set[int]:
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


def test_blas_has_one_thread_while_anything_needs_that() -> None:
    with threadpool_limits(2, user_api="blas"):
        inside, go_on = threading.Event(), threading.Event()

        def other() -> None:
            with single_blas():
                inside.set()
                go_on.wait(60)

        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(60) and blas_threads() == {1}
        with pytest.raises(ZeroDivisionError), single_blas():
            assert 1 // 0
        assert blas_threads() == {1}  # for the other
        go_on.set()
        thread.join()
        assert blas_threads() == {2}
