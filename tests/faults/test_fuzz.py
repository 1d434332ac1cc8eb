"""A short round of fuzzing; `make fuzz` goes on for ten minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.faults.fuzz import TARGETS, Target, tried

EXAMPLES = 25


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_fuzz(target: Target, record_property: Any) -> None:
    record_property("tries", tried(target, TARGETS[target], EXAMPLES))


def test_an_unexpected_error_gets_through() -> None:
    def broken(number: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tried(broken, (st.integers(),), 5)
