"""Independent work on the CPU's cores."""

from __future__ import annotations

import threading

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from tamatch.frozen import regression
from tamatch.frozen.regression import fit, vector
from tamatch.machine.threads import side_by_side


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


def test_blas_has_one_thread_meanwhile() -> None:
    x, y = torch.randn(40, 5), torch.arange(40) % 2
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert side_by_side(lambda _: blas_threads(), range(3)) == [{1}] * 3
        assert blas_threads() == before
        fit(x, y, torch.ones(40), 2)
        assert blas_threads() == before
        side_by_side(lambda _: fit(x, y, torch.ones(40), 2), range(4))  # each asks for it, too
        assert blas_threads() == before


def test_a_regression_lets_blas_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(regression, "vector", lambda m: seen.append(blas_threads()) or vector(m))
    with threadpool_limits(2, user_api="blas"):
        fit(torch.randn(40, 5), torch.arange(40) % 2, torch.ones(40), 2)
    assert {1} in seen[1:] and len({*map(tuple, seen[1:])}) == 1
