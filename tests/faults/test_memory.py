"""Too little memory: foreseen, and survived by recomputing activations."""

from __future__ import annotations

import copy
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import tamatch
from tamatch import cli
from tamatch.machine.memory import OutOfMemory, detecting_out_of_memory, in_batches
from tamatch.methods import METHODS
from tamatch.nets.base import recompute, recomputes
from tamatch.nets.wrn import Flow, Parts, ResidualBlock
from tamatch.step.cost import PROBES, Estimate, Peak, bytes_of_passes, estimate, probe
from tamatch.step.engine import Engine
from tamatch.step.guard import Guard
from tamatch.storage import checkpoint
from tests.contract.test_contract import assert_equal
from tests.data.memory import resident
from tests.faults.runs import DOZEN, WORDS, crash_at
from tests.processes import fingerprint
from tests.tiny import tiny_engine

FEW = ["tamatch", "vat", "crmatch"]
FACTOR = 2.0  # within which an estimate must lie
HUNGRY = """
import torch
from tamatch.methods.fixmatch import FixMatch

class Hungry(FixMatch):
    def forward(self, batch):
        loss = super().forward(batch)  # by now it has moved every statistic
        first = next(b for n, b in self.net.named_modules() if n.startswith("stages.0.0"))
        if int(batch.step) == {step} and not ({once} and first.recompute):
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return loss
"""


def hungry(place: Path, step: int, *, once: bool = True) -> str:
    """A method that has no room in one step, unless activations are recomputed."""
    place.write_text(HUNGRY.format(step=step, once=once))
    return f"{place}:Hungry"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The end of a run that had all the memory it wanted."""
    place = tmp_path_factory.mktemp("whole")
    tamatch.train(
        out=place / "run", quiet=True, **{**DOZEN, "method": hungry(place / "own.py", 99)}
    )
    return fingerprint(place / "run")


def same_end(found: dict[str, Any], whole: dict[str, Any]) -> None:
    """All but the flag in the state and the name of the method, which has another path."""
    for part in ("rows", "model", "predictions", "split"):
        assert found[part] == whole[part], part


@pytest.mark.parametrize("step", [0, 7])
def test_a_process_without_memory_recomputes_and_ends_the_same(
    tmp_path: Path, whole: dict[str, Any], step: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    method = hungry(tmp_path / "own.py", step)
    assert cli.main(["train", "--out", str(run), "--method", method, *WORDS]) == 0
    told = f"cpu ran out of memory in step {step}. From here on, activations are recomputed"
    assert told in capsys.readouterr().err and told in (run / "log.txt").read_text()
    same_end(fingerprint(run), whole)


def test_a_resumed_run_goes_on_recomputing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, Any]
) -> None:
    run = crash_at(9, monkeypatch, tmp_path / "run", method=hungry(tmp_path / "own.py", 2))
    seen: list[bool] = []
    loaded = Engine.load_state_dict

    def load(engine: Engine, state: dict[str, Any]) -> None:
        loaded(engine, state)
        seen.append(recomputes(engine.method))

    monkeypatch.setattr(Engine, "load_state_dict", load)
    tamatch.resume(run, quiet=True)
    assert seen == [True]
    same_end(fingerprint(run), whole)


def test_where_recomputing_does_not_help_the_batch_that_fits_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, method = tmp_path / "run", hungry(tmp_path / "own.py", 5, once=False)
    assert cli.main(["train", "--out", str(run), "--method", method, *WORDS]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "--batch 4 --unlabelled 6 does not fit into the memory of cpu, even with" in message
    assert "--batch 2 --unlabelled 3 fits" in message and "it needs about" in message
    assert [p.name for p in checkpoint.saved_in(run / "checkpoints")] == ["step_00000004"]


def test_no_room_inside_a_recomputed_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There torch is in the middle of its own book-keeping, which must not stay half done."""
    whole, left = ResidualBlock._compute, [40]

    def compute(block: ResidualBlock, flow: Flow, do: Parts) -> Flow:
        if left[0] == 0 and len(flow[0]) > max(PROBES) and torch.is_grad_enabled():
            raise torch.OutOfMemoryError
        left[0] -= left[0] > 0
        return whole(block, flow, do)

    monkeypatch.setattr(ResidualBlock, "_compute", compute)
    with pytest.raises(OutOfMemory, match="--batch 2 --unlabelled 3 fits"):
        tamatch.train(out=tmp_path / "run", quiet=True, **DOZEN)


@pytest.mark.parametrize("name", FEW)
def test_recomputed_steps_are_equal(name: str) -> None:
    equal_steps(name)


def test_a_graph_that_cannot_be_recorded_is_done_without() -> None:
    """First activations are recomputed; a recording that has no room even so is given up."""
    engine = tiny_engine("fixmatch")
    engine.use_graph, recording = True, cast("torch.cuda.CUDAGraph", object())
    for expected in ("activations are recomputed", "steps run without a CUDA graph"):
        engine.guard.remember()
        engine.graph = recording  # in the middle of it
        assert expected in str(engine.reduce_memory())
        assert engine.graph is None
    assert not engine.use_graph
    assert engine.reduce_memory() is None
    engine.advance()


def test_batches_are_halved_until_they_fit_and_never_empty() -> None:
    """A net of one's own need not work on no images at all."""
    sizes: list[int] = []

    def work(rows: torch.Tensor) -> torch.Tensor:
        sizes.append(len(rows))
        if len(rows) > room:
            raise torch.OutOfMemoryError
        return 2 * rows

    for room, tried in ((4, [4, 4]), (2, [4, 2, 2, 2, 2]), (0, [4, 2, 1])):
        sizes.clear()
        with nullcontext() if room else pytest.raises(OutOfMemory):
            assert torch.equal(torch.cat(in_batches(work, torch.arange(8), 4)), 2 * torch.arange(8))
        assert sizes == tried


@pytest.mark.parametrize("done", [0, 3])
def test_no_room_for_a_batch_moves_nothing(done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made before the step notes what to put back."""
    engine = tiny_engine("tamatch", ema=0.9)
    for _ in range(done):
        engine.advance()
    before = copy.deepcopy(engine.state_dict())

    def no_room(step: int) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(engine, "prepare_step", no_room)
    with pytest.raises(OutOfMemory):
        engine.advance()
    assert engine.reduce_memory()
    after = engine.state_dict()
    assert (before.pop("recomputes"), after.pop("recomputes")) == (False, True)
    assert_equal(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(METHODS) - set(FEW)))
def test_recomputed_steps_are_equal_in_every_method(name: str) -> None:
    equal_steps(name)


def equal_steps(name: str) -> None:
    """Also where the first attempt at a step has already moved statistics."""
    plain, saving = tiny_engine(name, ema=0.9), tiny_engine(name, ema=0.9)
    for engine in (plain, saving):
        engine.advance()
    saving.prepare_step(1)
    saving.guard.remember()
    saving.method(saving.batch(saving.device_step)).total.backward()  # and then memory runs out
    assert "recomputed" in str(saving.reduce_memory()) and saving.reduce_memory() is None
    for engine in (plain, saving):
        for _ in range(3):
            engine.advance()
    one, two = (copy.deepcopy(engine.state_dict()) for engine in (plain, saving))
    assert (one.pop("recomputes"), two.pop("recomputes")) == (False, True)
    assert_equal(one, two)


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("recomputed", [False, True])
def test_the_estimate_is_near_the_truth(name: str, recomputed: bool) -> None:
    near_the_truth(name, recomputed)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(METHODS) - set(FEW)))
@pytest.mark.parametrize("recomputed", [False, True])
def test_the_estimate_is_near_the_truth_for_every_method(name: str, recomputed: bool) -> None:
    near_the_truth(name, recomputed)


def near_the_truth(name: str, recomputed: bool) -> None:
    """What a real step allocates, gradients included, against what was said of it."""
    engine = tiny_engine(name)
    engine.advance()
    if recomputed:
        recompute(engine.method)
    before = copy.deepcopy(engine.state_dict())
    found = estimate(engine, [])
    assert_equal(before, engine.state_dict())  # looking changes nothing
    engine.prepare_step(engine.steps_done)
    with Peak() as peak:
        engine.step()
    gradients = sum(p.nbytes for p in engine.method.parameters() if p.requires_grad)
    assert 1 / FACTOR < (found.step + gradients) / peak.most < FACTOR


def test_the_estimate_is_near_what_the_system_says() -> None:
    """A step that is large enough to be seen in the memory of the process."""
    engine = tiny_engine("supervised")
    count = 150 * 2**20 // (probe(engine, 4) // 4)  # some 150 MiB
    size = engine.augment.policy.size
    before = resident()
    out = engine.method.net(torch.randn(count, 3, size, size))
    grown = resident() - before
    assert 1 / FACTOR < bytes_of_passes(engine, count) / grown < FACTOR
    del out


def test_the_guard_takes_what_it_says() -> None:
    engine = tiny_engine("tamatch")
    with Peak() as peak:
        guard = Guard(engine.method, engine.optimizer)
    assert guard.nbytes <= peak.now <= guard.nbytes + 100  # and a few numbers


def test_peak_counts_what_is_alive_together() -> None:
    with Peak() as peak:
        kept = torch.zeros(1000)
        for _ in range(3):
            passing = torch.ones(500)
            del passing
        view = kept.view(10, 100) + 0 * kept[0]
        kept.add_(1)
    assert 4 * 1500 <= peak.most <= 4 * 2100 and view.shape == (10, 100)


def test_the_share_that_fits() -> None:
    need = Estimate(weights=10, optimizer=10, guard=5, images=5, step=100)
    assert need.total == 130
    assert need.share_that_fits(80) == pytest.approx(0.5)
    assert need.share_that_fits(55) == pytest.approx(0.25)
    assert need.share_that_fits(10) == 0.0
    assert need.share_that_fits(1000) == 0.5  # it should have had room, and had none


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:114] . DefaultCPUAllocator: can't allocate"),
        RuntimeError("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation'"),
        RuntimeError("Triton Error [CUDA]: out of memory"),
        RuntimeError("GET was unable to find an engine to execute this computation"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_all_kinds_of_errors_are_noticed(error: RuntimeError) -> None:
    with pytest.raises(OutOfMemory, match="smaller --batch"), detecting_out_of_memory():
        raise error


def test_torch_s_own_error_is_noticed() -> None:
    with pytest.raises(OutOfMemory), detecting_out_of_memory():
        torch.empty(2**60, dtype=torch.uint8)
    with pytest.raises(RuntimeError, match="shape"), detecting_out_of_memory():
        torch.zeros(3).view(2)


def test_tests_get_by_with_what_there_is() -> None:
    engine = tiny_engine("fixmatch")
    images = torch.randint(0, 256, (700, 3, 8, 8), dtype=torch.uint8)
    whole, most = engine.probabilities(images), [0]
    forward = engine.method.net.forward

    def small(x: torch.Tensor) -> Any:
        if len(x) > 100:
            raise torch.OutOfMemoryError
        most[0] = max(most[0], len(x))
        return forward(x)

    engine.method.net.forward = small  # type: ignore[method-assign]
    torch.testing.assert_close(engine.probabilities(images), whole)
    assert most == [64]  # 512 halved until it fits
    engine.method.net.forward = lambda x: torch.empty(2**60)  # type: ignore[method-assign]
    with pytest.raises(OutOfMemory):
        engine.probabilities(images)


def test_the_estimate_is_written_down(tmp_path: Path) -> None:
    tamatch.train(out=tmp_path / "run", quiet=True, **DOZEN)
    memory = json.loads((tmp_path / "run" / "run.json").read_text())["memory"]
    assert memory["total"] == sum(v for k, v in memory.items() if k != "total") > 0
    log = tmp_path / "run" / "log.txt"
    assert not log.exists() or "memory" not in log.read_text()  # there was enough


def test_too_little_memory_is_told_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tamatch.step.cost.available_memory", lambda device: 2**20)
    tamatch.train(out=tmp_path / "run", quiet=True, **DOZEN)
    assert "GiB of memory; there are 0.00 GiB" in (tmp_path / "run" / "log.txt").read_text()
