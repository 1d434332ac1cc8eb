"""What an engine does on a GPU, told by stand-ins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch

from tamatch.errors import UsageError
from tests.tiny import tiny_engine


class Stream:
    device = "cuda:1"

    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    def wait_stream(self, other: Stream) -> None:
        self.told.append(f"{self.name} waits for {other.name}")


def test_a_run_is_joined_with_what_its_own_device_does_before_and_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `--device cuda:1` the current device is another one."""
    told: list[str] = []
    engine: Any = tiny_engine("fixmatch")
    engine.stream = Stream("the run", told)
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: nullcontext())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda device=None: Stream(f"the usual of {device}", told)
    )
    with engine.running():
        told.append("steps")
    usual = "the usual of cuda:1"
    assert told == [f"the run waits for {usual}", "steps", f"{usual} waits for the run"]


@contextmanager
def refusing(*_: object, **__: object) -> Iterator[None]:
    """A capture as torch ends it when the GPU has refused something on the way."""
    try:
        yield
    finally:
        raise RuntimeError("CUDA error: operation failed due to a previous error\nSearch for it")


def test_a_step_that_cannot_be_recorded_is_told_with_its_first_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine: Any = tiny_engine("fixmatch")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "graph", refusing)

    def step() -> None:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nMore")

    engine.step = step
    told = (
        r"captured as a CUDA graph: CUDA error: operation not permitted when stream is capturing\."
    )
    with pytest.raises(UsageError, match=told + " Train with --no-graph"):
        engine.capture()
    engine.step = lambda: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(RuntimeError, match="previous error"):  # to be noticed as such outside
        engine.capture()


def test_a_loaded_state_is_captured_anew() -> None:
    """Torch's optimizers take other tensors for a state that is loaded."""
    engine: Any = tiny_engine("fixmatch")
    engine.advance()
    engine.graph = object()
    engine.load_state_dict(engine.state_dict())
    assert engine.graph is None and not engine.eager_steps
