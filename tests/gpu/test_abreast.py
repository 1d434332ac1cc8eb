"""On a GPU: several engines in one graph, each as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import tamatch
from tamatch.data import load, make_split
from tamatch.machine.memory import OutOfMemory, detecting_out_of_memory, free_memory
from tamatch.runs.build import engine_of
from tamatch.runs.loop import advance
from tamatch.runs.training import Training
from tamatch.settings.configure import configure
from tamatch.settings.inputs import split_plan
from tamatch.step.engine import WARM_STEPS, Engine, JointGraph
from tests.contract.test_contract import assert_equal
from tests.faults.runs import DOZEN
from tests.gpu.test_capture import run
from tests.processes import fingerprint
from tests.reference.base import SlowMethod
from tests.reference.table import REFERENCES
from tests.tiny import tiny_engine

pytestmark = pytest.mark.gpu

SEEDS = (0, 1, 2)
DRAWING = sorted(  # random numbers in the step
    name
    for name, reference in REFERENCES.items()
    if reference.drawn.__func__ is not SlowMethod.drawn.__func__  # type: ignore[attr-defined]
)
USUAL = {"net": "wrn_28_2", "size": 32, "device": "cuda", "batch": 64, "unlabelled": 128}


class Bare:
    """A training without a folder, as far as a step needs one."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.told: list[int] = []

    def advance(self) -> None:
        self.engine.advance()

    def reduce_memory(self) -> None:
        self.told.append(self.engine.steps_done)
        assert self.engine.reduce_memory()


def together(engines: Sequence[Engine], steps: int, joint: JointGraph | None = None) -> list[Bare]:
    """So many steps of each, on the stream that their trainings share."""
    bare, joint = [Bare(engine) for engine in engines], joint or JointGraph()
    with ExitStack() as around:
        for engine in engines:
            around.enter_context(engine.running())
        for _ in range(steps):
            advance(joint, cast("list[Training]", bare))
    torch.cuda.synchronize()
    return bare


def tiny(name: str, seed: int, *, graph: bool = True) -> Engine:
    return tiny_engine(name, seed, device="cuda", graph=graph)


@pytest.mark.parametrize("name", ["tamatch", "fixmatch", "comatch", *DRAWING])
def test_each_equals_its_eager_run_alone(name: str, same_kernels: None) -> None:
    joint, engines = JointGraph(), [tiny(name, seed) for seed in SEEDS]
    together(engines, 12, joint)
    assert joint.graph is not None and all(engine.graph is None for engine in engines)
    for seed, engine in zip(SEEDS, engines, strict=True):
        assert_equal(run(tiny(name, seed, graph=False), 12).state_dict(), engine.state_dict())


@pytest.mark.parametrize("name", ["tamatch", "mixmatch"])
def test_without_a_graph(name: str, same_kernels: None) -> None:
    engines = [tiny(name, seed, graph=False) for seed in SEEDS]
    together(engines, 8)
    for seed, engine in zip(SEEDS, engines, strict=True):
        assert_equal(run(tiny(name, seed, graph=False), 8).state_dict(), engine.state_dict())


@pytest.mark.parametrize("name", ["tamatch", "mixmatch"])
def test_the_group_may_change(name: str, same_kernels: None) -> None:
    """The last goes alone first; then all together; then the first leaves."""
    engines, joint = [tiny(name, seed) for seed in SEEDS], JointGraph()
    together(engines[2:], 6, joint)
    assert joint.graph is None and engines[2].graph is not None
    for engine in engines[:2]:
        run(engine, 6)
    together(engines, 6, joint)
    assert joint.engines == engines
    together(engines[1:], 6, joint)
    assert joint.engines == engines[1:]
    for seed, engine in zip(SEEDS, engines, strict=True):
        steps = 12 if seed == 0 else 18
        assert_equal(run(tiny(name, seed, graph=False), steps).state_dict(), engine.state_dict())


@pytest.mark.parametrize("name", ["tamatch", "vat"])
def test_no_room_to_capture(name: str, same_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second engine fails in the middle of the recording; nothing of it is left."""
    engines, whole, failed = [tiny(name, seed) for seed in SEEDS], Engine.learn, []

    def learn(engine: Engine, batch: Any) -> None:
        if torch.cuda.is_current_stream_capturing() and engine is engines[1] and not failed:
            failed.append(engine.steps_done)
            with detecting_out_of_memory():
                raise torch.OutOfMemoryError("CUDA out of memory.")
        whole(engine, batch)

    monkeypatch.setattr(Engine, "learn", learn)
    bare = together(engines, 12)
    monkeypatch.undo()
    assert failed == [WARM_STEPS] and all(b.told == [WARM_STEPS] for b in bare)
    for seed, engine in zip(SEEDS, engines, strict=True):
        alone, found = run(tiny(name, seed, graph=False), 12).state_dict(), engine.state_dict()
        assert found.pop("recomputes") and not alone.pop("recomputes")
        assert_equal(alone, found)


@pytest.mark.parametrize("name", ["tamatch", "mixmatch"])
def test_streams_may_be_shared(
    name: str, same_kernels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch has 32 and hands them out in turn: the side stream of one is another's own."""
    whole, few = torch.cuda.Stream, cycle([torch.cuda.Stream() for _ in range(3)])  # type: ignore[no-untyped-call]

    def handed_out(*device: Any, **known: Any) -> torch.cuda.Stream:
        return whole(**known) if known else next(few)  # torch itself asks for streams by number

    monkeypatch.setattr(torch.cuda, "Stream", handed_out)
    joint, engines = JointGraph(), [tiny(name, seed) for seed in SEEDS]
    assert engines[0].prefetcher is not None and engines[0].prefetcher.stream == engines[1].stream
    together(engines, 12, joint)
    monkeypatch.undo()
    assert joint.graph is not None
    for seed, engine in zip(SEEDS, engines, strict=True):
        assert_equal(run(tiny(name, seed, graph=False), 12).state_dict(), engine.state_dict())


def test_the_user_s_random_numbers_go_on(same_kernels: None) -> None:
    engines = [tiny("mixmatch", seed) for seed in SEEDS]
    torch.manual_seed(5)
    wanted = torch.rand(3, device="cuda")
    torch.manual_seed(5)
    together(engines, 8)
    assert torch.equal(torch.rand(3, device="cuda"), wanted)


def usual(seed: int, **settings: Any) -> Engine:
    chosen = configure({**USUAL, "seed": seed, **settings})
    data = load("digits", None, chosen.size)
    return engine_of(chosen, data, make_split(data, split_plan(chosen)))


def weights(engine: Engine) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in engine.method.net.parameters()])


def test_three_usual_runs_in_half_precision() -> None:
    """Near each run alone after 50 steps, within 80 GB, and faster than one after the other."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    engines, joint = [usual(seed, precision="bf16") for seed in SEEDS], JointGraph()
    together(engines, 50, joint)
    assert joint.graph is not None
    assert torch.cuda.max_memory_reserved() < 80e9
    print(f"\nthree WRN-28-2: {torch.cuda.max_memory_reserved() / 2**30:.2f} GiB")
    for seed, engine in zip(SEEDS, engines, strict=True):
        alone = weights(run(usual(seed, precision="bf16"), 50))
        far = float((weights(engine) - alone).norm() / alone.norm())
        print(f"seed {seed}: {far:.2e} from its run alone")
        assert far < 1e-2
    first, second = weights(engines[0]), weights(engines[1])
    assert float((first - second).norm() / first.norm()) > 0.1


def test_compiled_transformers() -> None:
    """Their stochastic depth draws random numbers inside compiled code."""
    small = {"net": "vit_tiny_p2_32", "optimizer": "adamw", "lr": 1e-4, "precision": "bf16"}
    small |= {"batch": 8, "unlabelled": 8}
    engines, joint = [usual(seed, **small) for seed in SEEDS], JointGraph()
    together(engines, 20, joint)
    assert joint.graph is not None
    for seed, engine in zip(SEEDS, engines, strict=True):
        alone = weights(run(usual(seed, **small), 20))
        assert float((weights(engine) - alone).norm() / alone.norm()) < 1e-2


def test_real_runs(tmp_path: Path) -> None:
    """Folders, tests, checkpoints and baselines, all of it on the device."""
    options = {
        **DOZEN, "device": "cuda", "method": "mixmatch", "deterministic": True,
        "precision": "fp32", "compile": False, "baseline": "supervised",
    }  # fmt: skip
    made = tamatch.train_seeds(SEEDS, out=tmp_path / "all", quiet=True, **options)
    for seed, finished in zip(SEEDS, made, strict=True):
        own = tamatch.train(out=tmp_path / f"{seed}", quiet=True, seed=seed, **options)
        assert fingerprint(finished.path) == fingerprint(own.path)
        assert fingerprint(finished.path / "baseline") == fingerprint(own.path / "baseline")


def test_too_many_for_the_device(tmp_path: Path) -> None:
    options = {
        **DOZEN, **USUAL, "batch": 128, "unlabelled": 512, "precision": "fp32", "compile": False,
    }  # fmt: skip
    total = torch.cuda.get_device_properties(0).total_memory
    free_memory()
    room = torch.cuda.memory_reserved() + 5 * 2**30
    torch.cuda.set_per_process_memory_fraction(room / total)
    try:
        with pytest.raises(OutOfMemory, match=r"8 runs at the same time do not fit.*at a time"):
            tamatch.train_seeds(range(8), out=tmp_path / "all", quiet=True, **options)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
