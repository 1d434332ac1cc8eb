"""On a GPU: a captured step passes over a bad batch as an eager one does, and leaves no trace."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tamatch.step.engine import Engine
from tamatch.types import Batch, Loss
from tests.contract.test_contract import assert_equal
from tests.tiny import tiny_engine

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("same_kernels")]

BAD = 7  # after the capture


def spoilt(name: str, *, graph: bool) -> Engine:
    """An engine whose loss is NaN in one step, which only the device knows."""
    engine = tiny_engine(name, device="cuda", graph=graph, ema=0.9)
    whole = engine.method.forward

    def forward(batch: Batch) -> Loss:
        loss = whole(batch)
        loss.total = loss.total + torch.where(batch.step == BAD, torch.nan, 0.0)
        return loss

    engine.method.forward = forward  # type: ignore[method-assign]
    return engine


def run(engine: Engine, steps: int) -> dict[str, Any]:
    with engine.running():
        for _ in range(steps):
            engine.advance()
    torch.cuda.synchronize()
    return copy.deepcopy(engine.state_dict())


@pytest.mark.parametrize("name", ["tamatch", "comatch", "simmatch", "flexmatch", "vat"])
def test_a_captured_bad_step_leaves_no_trace(name: str) -> None:
    engine = spoilt(name, graph=True)
    before, after = run(engine, BAD), run(engine, 1)
    assert engine.graph is not None and int(engine.guard.count) == 1
    for part in ("method", "meter"):
        assert_equal(before[part], after[part])
    assert_equal(before["optimizer"]["state"], after["optimizer"]["state"])
    assert_equal(run(spoilt(name, graph=False), 12), run(engine, 4))
