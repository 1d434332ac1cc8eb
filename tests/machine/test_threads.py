"""Independent work on the CPU's cores."""

from __future__ import annotations

import threading

import pytest
import torch

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
