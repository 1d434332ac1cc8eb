"""The first 20 losses of every method, as they were when last looked at.

A change here changes results: `python -m tests.golden.test_golden` writes the new values, and
the CHANGELOG says why. All is in float64: single precision is rounded differently by different
CPUs, and a rounding that moves one pseudo-label over its threshold moves all later losses.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from tamatch.methods import METHODS
from tests.tiny import tiny_engine

FOLDER = Path(__file__).parent
STEPS = 20


def path(name: str) -> Path:
    return FOLDER / f"{name}.json"


@contextmanager
def double_by_default() -> Iterator[None]:
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


@double_by_default()
def trajectory(name: str) -> list[float]:
    torch.set_num_threads(1)
    engine = tiny_engine(name)
    engine.augment.double()
    losses = []
    for _ in range(STEPS):
        engine.advance()
        losses.append(float(engine.meter.read()["total"]))  # type: ignore[arg-type]
    return losses


@pytest.mark.parametrize("name", METHODS)
def test_trajectory(name: str) -> None:
    want = json.loads(path(name).read_text())
    torch.testing.assert_close(trajectory(name), want, rtol=1e-5, atol=1e-5)


def test_no_golden_file_is_left_over() -> None:
    assert {p.stem for p in FOLDER.glob("*.json")} == set(METHODS)


def write(names: Iterable[str]) -> None:
    for name in names:
        text = json.dumps([round(loss, 6) for loss in trajectory(name)])
        path(name).write_text(text + "\n")


if __name__ == "__main__":
    write(METHODS)
