"""On a GPU: streamed images are the resident ones, to the last bit, however the step is run."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from tamatch.settings.hardware import available_memory
from tamatch.step.engine import Engine
from tamatch.step.source import LABELLED, UNLABELLED, Draw, Resident, Source, Streamed
from tests.contract.test_contract import assert_equal
from tests.tiny import digits, tiny_engine

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("same_kernels")]

STEPS = 20


def run(engine: Engine, steps: int = STEPS) -> Engine:
    with engine.running():
        for _ in range(steps):
            engine.advance()
    torch.cuda.synchronize()
    return engine


@pytest.mark.parametrize("name", ["supervised", "fixmatch", "tamatch", "vat"])
@pytest.mark.parametrize("graph", [False, True])
def test_streamed_equals_resident(name: str, graph: bool) -> None:
    resident = run(tiny_engine(name, device="cuda", graph=graph))
    streamed = run(tiny_engine(name, device="cuda", graph=graph, source=Streamed))
    assert (streamed.graph is not None) == graph
    assert_equal(resident.state_dict(), streamed.state_dict())


@pytest.mark.parametrize("buffers", [1, 2, 5])
def test_any_number_of_buffers(buffers: int) -> None:
    many = partial(Streamed, buffers=buffers)
    resident = run(tiny_engine("tamatch", device="cuda", graph=True))
    streamed = run(tiny_engine("tamatch", device="cuda", graph=True, source=many))
    assert_equal(resident.state_dict(), streamed.state_dict())


def test_resume_of_a_streamed_captured_run() -> None:
    whole = run(tiny_engine("tamatch", device="cuda", graph=True))
    first = run(tiny_engine("tamatch", device="cuda", graph=True, source=Streamed), 7)
    second = tiny_engine("tamatch", device="cuda", graph=True, source=Streamed)
    second.load_state_dict(first.state_dict())
    assert_equal(whole.state_dict(), run(second, STEPS - 7).state_dict())


@pytest.mark.parametrize("buffers", [1, 2, 5])
def test_no_buffer_is_written_before_it_was_sent(buffers: int) -> None:
    """The device lags behind, so that the thread could overtake the copies if nothing held it."""
    data, split = digits()
    draw, device = Draw(8, 12, seed=3), torch.device("cuda")
    sources: list[Source] = [
        Resident(data, split, draw, device),
        Streamed(data, split, draw, device, buffers=buffers),
    ]
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        for step in range(60):
            for source in sources:
                source.prepare(step)
            torch.cuda._sleep(2_000_000)
            at = torch.full((), step, device=device)
            for kind in (LABELLED, UNLABELLED):
                one, other = (s.images(kind, s.ids(at)[kind]) for s in sources)
                wrong += (one != other).sum()
        torch.cuda.synchronize()
    assert int(wrong) == 0


def test_a_streamed_step_does_not_wait_for_the_device() -> None:
    engine = run(tiny_engine("fixmatch", device="cuda", source=Streamed), 2)
    engine.source.prepare(engine.steps_done)
    with engine.running():
        torch.cuda.set_sync_debug_mode("error")
        try:
            engine.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_staging_is_pinned_and_free_memory_counts_what_torch_keeps() -> None:
    engine = tiny_engine("fixmatch", device="cuda", source=Streamed)
    assert isinstance(engine.source, Streamed)
    assert all(buffer.is_pinned() for buffers in engine.source.staging for buffer in buffers)
    before = available_memory(engine.device)
    kept = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    assert available_memory(engine.device) < before
    del kept
    assert available_memory(engine.device) > before - 2**27
