"""On which streams an engine works, told by stand-ins for those of a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from tests.tiny import tiny_engine


class Stream:
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
    usual = f"the usual of {engine.device}"
    assert told == [f"the run waits for {usual}", "steps", f"{usual} waits for the run"]
