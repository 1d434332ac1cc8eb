"""The first 20 losses of every method, as they were when last looked at.

A change here changes results: `python -m tests.golden.test_golden` writes the new values, and
the CHANGELOG says why.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tamatch.methods import METHODS
from tests.tiny import tiny_engine

FOLDER = Path(__file__).parent
STEPS = 20


def trajectory(name: str) -> list[float]:
    torch.set_num_threads(1)
    engine = tiny_engine(name)
    losses = []
    for _ in range(STEPS):
        engine.advance()
        losses.append(float(engine.meter.read()["total"]))  # type: ignore[arg-type]
    return losses


@pytest.mark.parametrize("name", METHODS)
def test_trajectory(name: str) -> None:
    want = json.loads((FOLDER / f"{name}.json").read_text())
    torch.testing.assert_close(trajectory(name), want, rtol=1e-3, atol=1e-4)


def test_no_golden_file_is_left_over() -> None:
    assert {p.stem for p in FOLDER.glob("*.json")} == set(METHODS)


if __name__ == "__main__":
    for name in METHODS:
        text = json.dumps([round(loss, 6) for loss in trajectory(name)])
        (FOLDER / f"{name}.json").write_text(text + "\n")
