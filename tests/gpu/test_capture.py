"""On a GPU: the captured step is the eager step, to the last bit, for every method."""

from __future__ import annotations

import pytest
import torch

from tamatch.methods import METHODS
from tamatch.step.engine import Engine
from tests.contract.test_contract import assert_equal
from tests.tiny import teach, tiny_engine

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("same_kernels")]


def run(engine: Engine, steps: int) -> Engine:
    with engine.running():
        for _ in range(steps):
            engine.advance()
    torch.cuda.synchronize()
    return engine


@pytest.mark.parametrize("name", METHODS)
def test_captured_equals_eager(name: str) -> None:
    eager = run(tiny_engine(name, device="cuda"), 12)
    captured = run(tiny_engine(name, device="cuda", graph=True), 12)
    assert captured.graph is not None
    assert_equal(eager.state_dict(), captured.state_dict())


@pytest.mark.parametrize("name", ["tamatch", "fixmatch", "comatch", "vat"])
def test_transformers_in_half_precision(name: str) -> None:
    """Their weak views run beside the others, and weights are rounded for both."""
    kind = {"net": "vit_tiny_p2_8", "autocast": torch.bfloat16, "device": "cuda"}
    eager = run(tiny_engine(name, **kind), 12)
    captured = run(tiny_engine(name, graph=True, **kind), 12)
    assert captured.graph is not None and float(captured.guard.count) == 0
    assert_equal(eager.state_dict(), captured.state_dict())


def test_a_captured_step_learns_what_it_is_taught_later() -> None:
    ends = []
    for graph in (False, True):
        engine = tiny_engine("tamatch_solved", device="cuda", graph=graph)
        with engine.running():
            for step in range(12):
                if step == 6:
                    with engine.on_stream():
                        teach(engine.method, first=1)
                engine.advance()
        torch.cuda.synchronize()
        assert (engine.graph is not None) == graph
        ends.append(engine.state_dict())
    assert_equal(*ends)


@pytest.mark.parametrize("name", METHODS)
def test_resume_of_a_captured_run(name: str) -> None:
    whole = run(tiny_engine(name, device="cuda", graph=True), 12)
    first = run(tiny_engine(name, device="cuda", graph=True), 5)
    second = tiny_engine(name, device="cuda", graph=True)
    second.load_state_dict(first.state_dict())
    assert_equal(whole.state_dict(), run(second, 7).state_dict())


@pytest.mark.parametrize("name", METHODS)
def test_no_step_waits_for_the_device(name: str) -> None:
    engine = run(tiny_engine(name, device="cuda"), 2)
    with engine.running():
        engine.prepare_step(engine.steps_done)
        torch.cuda.set_sync_debug_mode("error")
        try:
            engine.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
