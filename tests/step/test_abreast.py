"""How several engines are captured together, told by stand-ins for what a GPU has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from tamatch.machine import branches
from tamatch.machine.memory import OutOfMemory
from tamatch.runs.loop import advance
from tamatch.step.batches import Prefetcher
from tamatch.step.engine import JointGraph
from tests.tiny import tiny_engine

Events = list[str]


class Stream:
    device = "cuda"

    def __init__(self, name: str, told: Events) -> None:
        self.name, self.told = name, told

    def wait_stream(self, other: Stream) -> None:
        self.told.append(f"{self.name} waits for {other.name}")


class Default:
    """Torch's default generator: which state it has, and when it was changed."""

    def __init__(self) -> None:
        self.state: Any = "the user's"

    def graphsafe_get_state(self) -> Any:
        return self.state

    def graphsafe_set_state(self, state: Any) -> None:
        self.state = state


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Events:
    events: Events = []
    current = [Stream("main", events)]

    class Graph:
        def __init__(self) -> None:
            self.generators: list[Any] = []

        def register_generator_state(self, generator: Any) -> None:
            self.generators.append(generator)

        def replay(self) -> None:
            events.append("replay")

    @contextmanager
    def recording(graph: Graph, stream: Stream) -> Iterator[None]:
        events.append(f"capture {len(graph.generators)} on {stream.name}")
        yield
        events.append("captured")

    @contextmanager
    def on(stream: Stream) -> Iterator[None]:
        current.append(stream)
        yield
        current.pop()

    for name, stand_in in {
        "CUDAGraph": Graph, "graph": recording, "stream": on, "synchronize": lambda: None,
        "current_stream": lambda device=None: current[-1], "default_generators": (Default(),),
        "current_device": lambda: 0,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return events


def engine(name: str, told: Events, *, fails: bool = False) -> Any:
    def state() -> Any:
        return torch.cuda.default_generators[0].state  # type: ignore[attr-defined]

    def step() -> None:
        told.append(f"{name} on {torch.cuda.current_stream().name}")  # type: ignore[attr-defined]
        made.drew_from.append(state())
        if fails:
            raise OutOfMemory("no room")

    made = SimpleNamespace(
        device="cpu", stream=Stream(name, told), graph=None, warm=True, steps_done=7, step=step,
        on_stream=lambda: branches.working_on(made.stream),
        guard=SimpleNamespace(remember=lambda: None), drew_from=[], seeded=[],
        prepare_step=lambda step: made.seeded.append((step, state())),
    )  # fmt: skip
    return made


def test_all_branches_are_forked_first_and_joined_last(told: Events) -> None:
    joint, engines = JointGraph(), [engine("one", told), engine("two", told)]
    joint.replay(engines)
    assert told == [
        "capture 2 on main", "one waits for main", "two waits for main", "one on one", "two on two",
        "main waits for one", "main waits for two", "captured", "replay",
    ]  # fmt: skip
    joint.replay(engines)
    assert told[-2:] == ["replay", "replay"] and [e.steps_done for e in engines] == [9, 9]


def test_each_draws_from_its_own_generator_and_the_user_s_comes_back(told: Events) -> None:
    joint, engines = JointGraph(), [engine("one", told), engine("two", told)]
    joint.replay(engines)
    own = [e.drew_from[0] for e in engines]
    assert all(isinstance(state, torch.Generator) for state in own) and own[0] is not own[1]
    assert [e.seeded for e in engines] == [[(7, own[0])], [(7, own[1])]]  # before the replay
    assert torch.cuda.default_generators[0].state == "the user's"  # type: ignore[attr-defined]


def test_no_convolution_is_looked_for_in_a_capture(
    told: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cuDNN would measure, and measuring breaks the capture."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    seen: list[bool] = []
    engines = [engine("one", told), engine("two", told)]
    for made in engines:
        made.step = lambda: seen.append(torch.backends.cudnn.benchmark)
    JointGraph().replay(engines)
    assert seen == [False, False] and torch.backends.cudnn.benchmark


def test_a_failed_recording_is_joined_and_forgotten(told: Events) -> None:
    joint, engines = JointGraph(), [engine("one", told), engine("two", told, fails=True)]
    with pytest.raises(OutOfMemory):
        joint.replay(engines)
    assert told[-2:] == ["main waits for one", "main waits for two"]
    assert joint.graph is None and [e.steps_done for e in engines] == [7, 7]
    assert torch.cuda.default_generators[0].state == "the user's"  # type: ignore[attr-defined]


@pytest.mark.parametrize("where", ["the coming batch", "the step"])
def test_a_step_that_fails_in_a_capture_leaves_no_branch(
    where: str, told: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch could neither end the capture nor go on after it."""

    def make(step: torch.Tensor) -> Any:
        if where == "the coming batch":
            raise OutOfMemory("no room")
        return ()

    side = Stream("side", told)
    monkeypatch.setattr(torch.cuda, "Stream", lambda _: side)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    prefetcher = Prefetcher(tiny_engine("fixmatch").source, make)
    prefetcher.ready = cast(Any, ())
    if where == "the step":
        monkeypatch.setattr(branches, "OPEN", [Stream("beside", told)])
    with pytest.raises(OutOfMemory), prefetcher.current(torch.tensor(7)):
        raise OutOfMemory("no room")
    assert told[0] == "side waits for main" and "main waits for side" in told[1:]
    assert ("main waits for beside" in told) == (where == "the step") and not branches.OPEN


def test_another_group_is_captured_anew(told: Events) -> None:
    joint, engines = JointGraph(), [engine(name, told) for name in ("one", "two", "three")]
    joint.replay(engines)
    joint.replay(engines[1:])
    assert [line for line in told if line.startswith("capture ")] == [
        "capture 3 on main", "capture 2 on main"
    ]  # fmt: skip
    assert [e.steps_done for e in engines] == [8, 9, 9]


def test_eager_steps_wait_for_each_other(told: Events) -> None:
    """cuDNN measures its kernels then, and nothing may disturb it."""
    engines = [engine("one", told), engine("two", told)]
    engines[0].warm = False
    trainings: list[Any] = [SimpleNamespace(engine=made, advance=made.step) for made in engines]
    with engines[0].on_stream():
        advance(JointGraph(), trainings)
    assert told == [
        "one waits for main",
        "one on one",  # where it is already: there is nothing to wait for
        "two waits for one", "two on two", "one waits for two",
        "main waits for one",
    ]  # fmt: skip


def test_ready_are_several_warm_engines() -> None:
    cold, warm = tiny_engine("fixmatch"), tiny_engine("fixmatch", graph=True)
    warm.eager_steps = 3
    assert JointGraph.ready([warm, warm])
    assert (
        not JointGraph.ready([warm])
        and not JointGraph.ready([warm, cold])
        and not JointGraph.ready([])
    )
