"""The soak itself must be able to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.soak import GROWTH, Look, growth, watch

FLAT = [Look(50_000_000 + 4096 * min(i, 200) + 999 * (i % 2), 9 + i % 3) for i in range(1000)]


def test_start_up_and_passing_handles_are_no_growth() -> None:
    assert growth(FLAT) == Look(0, 0)


def test_a_slow_leak_is_found() -> None:
    leak = 3 * GROWTH // len(FLAT)  # bytes a look
    leaking = [Look(x.memory + leak * i, x.files) for i, x in enumerate(FLAT)]
    assert growth(leaking).memory > GROWTH
    forgetful = [Look(x.memory, x.files + i // 300) for i, x in enumerate(FLAT)]
    assert growth(forgetful).files > 0


@pytest.mark.slow
def test_a_short_soak(tmp_path: Path) -> None:
    assert watch("device", 60, tmp_path / "run")
