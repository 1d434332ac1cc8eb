"""NaN and infinity: a bad step leaves no trace, and too many of them stop the run with a reason."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tamatch
from tamatch import cli
from tamatch.errors import NumericError
from tamatch.methods import METHODS
from tamatch.step import optim
from tamatch.step.diagnosis import explain, first_not_finite_in_step, overflow
from tamatch.step.engine import Engine
from tamatch.step.guard import ALLOWED_BAD_STEPS, Guard
from tamatch.storage import checkpoint
from tamatch.types import Batch, Loss
from tests.contract.test_contract import assert_equal
from tests.faults.runs import DOZEN
from tests.tiny import tiny_engine, tiny_method

FEW = ["tamatch", "comatch", "simmatch", "flexmatch"]
LATER = sorted(set(METHODS) - set(FEW))
OWN = """
import torch
from tamatch.methods.fixmatch import FixMatch

class Breaks(FixMatch):
    def forward(self, batch):
        loss = super().forward(batch)
        bad = torch.where(batch.step >= 5, torch.nan, 0.0)
        loss.total, loss.parts["unsup"] = loss.total + bad, loss.parts["unsup"] + bad
        return loss
"""


def spoil_images(engine: Engine, at: set[int]) -> None:
    whole = engine.augment.forward

    def forward(*given: Any, **named: Any) -> Tensor:
        views = whole(*given, **named)
        return views * (torch.nan if int(engine.device_step) in at else 1.0)

    engine.augment.forward = forward  # type: ignore[method-assign]


def spoil_loss(engine: Engine, at: set[int]) -> None:
    whole = engine.method.forward

    def forward(batch: Batch) -> Loss:
        loss = whole(batch)
        if int(engine.device_step) in at:
            loss.total, loss.parts["sup"] = loss.total + torch.inf, torch.tensor(torch.inf)
        return loss

    engine.method.forward = forward  # type: ignore[method-assign]


def spoil_gradient(engine: Engine, at: set[int]) -> None:
    weight = next(p for n, p in engine.method.named_parameters() if n.endswith("conv1.weight"))
    weight.register_hook(lambda grad: grad * (torch.inf if int(engine.device_step) in at else 1.0))


def spoil_statistic(engine: Engine, at: set[int]) -> None:
    """After the forward pass: the gradients of this step are still finite."""
    mean = next(b for n, b in engine.method.named_buffers() if n.endswith("running_mean"))
    whole = engine.method.forward

    def forward(batch: Batch) -> Loss:
        loss = whole(batch)
        if int(engine.device_step) in at:
            mean.data[0] = torch.nan  # unseen by autograd
        return loss

    engine.method.forward = forward  # type: ignore[method-assign]


WAYS: dict[str, Callable[[Engine, set[int]], None]] = {
    "input images": spoil_images,
    "loss part sup": spoil_loss,
    "gradient of net.": spoil_gradient,
    "statistic net.": spoil_statistic,
}


def run(engine: Engine, steps: int) -> Engine:
    for _ in range(steps):
        engine.advance()
    return engine


def state(engine: Engine) -> dict[str, Any]:
    """All that a bad step may not touch: all but the step, its rate and the count of bad ones."""
    kept = copy.deepcopy(engine.state_dict())
    moments = kept["optimizer"]["state"]
    return {"method": kept["method"], "moments": moments, "meter": kept["meter"]}


def leaves_no_trace(name: str, way: str) -> None:
    engine = tiny_engine(name, ema=0.9)
    WAYS[way](engine, {3})
    before = state(run(engine, 3))
    assert_equal(before, state(run(engine, 1)))
    assert int(engine.guard.count) == 1
    with pytest.raises(AssertionError):  # and the next one trains
        assert_equal(before, state(run(engine, 1)))
    assert int(engine.guard.count) == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_bad_step_leaves_no_trace(way: str) -> None:
    for name in FEW:
        leaves_no_trace(name, way)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LATER)
def test_a_bad_step_leaves_no_trace_in_any_method(name: str, way: str) -> None:
    leaves_no_trace(name, way)


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_the_very_first_step_may_be_bad(kind: str) -> None:
    """Torch makes its moments in the first step, whether or not it is skipped."""
    engine = tiny_engine("fixmatch")
    groups = optim.parameter_groups(engine.method, lr=0.01, weight_decay=0.0)
    engine.optimizer = optim.build_optimizer(kind, groups)
    engine.guard = Guard(engine.method, engine.optimizer)
    spoil_loss(engine, {0})
    weights = copy.deepcopy(engine.method.state_dict())
    assert_equal(weights, run(engine, 1).method.state_dict())
    for moments in engine.optimizer.state.values():
        assert not any(m.any() for m in moments.values())
    assert overflow(engine.method, engine.optimizer) is None
    run(engine, 3)
    assert overflow(engine.method, engine.optimizer) is None


@pytest.mark.parametrize("way", WAYS)
def test_one_too_many_freezes_the_run_and_is_explained(way: str) -> None:
    engine = tiny_engine("tamatch")
    WAYS[way](engine, set(range(2, 100)))
    before = state(run(engine, 2))
    run(engine, ALLOWED_BAD_STEPS + 4)
    assert_equal(before, state(engine))
    assert explain(engine).startswith(f"step {2 + ALLOWED_BAD_STEPS}: {way}")


def test_after_the_freeze_even_a_good_step_does_nothing() -> None:
    engine = tiny_engine("fixmatch")
    spoil_loss(engine, {0, 1, 2, 3})
    before = state(engine)
    assert_equal(before["method"], state(run(engine, 8))["method"])


def test_bad_steps_before_a_resume_still_count() -> None:
    engine = tiny_engine("fixmatch")
    spoil_loss(engine, {1, 2})
    saved = copy.deepcopy(run(engine, 4).state_dict())
    again = tiny_engine("fixmatch")
    again.load_state_dict(saved)
    assert int(again.guard.count) == 2


def test_the_first_bad_layer_is_named() -> None:
    engine = run(tiny_engine("fixmatch"), 1)
    layer = engine.method.get_submodule("net.stages.0.0.conv1")
    layer.register_forward_hook(lambda module, given, out: out * torch.nan)
    run(engine, ALLOWED_BAD_STEPS + 1)
    assert explain(engine).endswith(": output of net.stages.0.0.conv1")


def test_a_weight_that_the_loss_does_not_use_is_no_fault() -> None:
    engine = tiny_engine("supervised")
    engine.method.spare = nn.Parameter(torch.ones(2))
    engine.prepare_step(0)
    assert first_not_finite_in_step(engine.method, engine.batch(engine.device_step)) is None


def test_a_step_that_was_bad_once_only_is_told_so() -> None:
    engine, bad = tiny_engine("fixmatch"), {0, 1, 2, 3}
    spoil_loss(engine, bad)
    run(engine, 4)
    bad.clear()
    assert "step 3: a value that was finite when the step was replayed" in explain(engine)


def test_bad_for_one_process_is_bad_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = run(tiny_engine("fixmatch"), 1)
    before = state(engine)
    monkeypatch.setattr("tamatch.step.guard.dist.max_", lambda found: found.fill_(1))
    assert_equal(before, state(run(engine, 1)))


def test_a_constant_that_is_infinite_is_no_fault() -> None:
    engine = tiny_engine("fixmatch")
    engine.method.register_buffer("smallest", torch.tensor(torch.inf))
    engine.guard = Guard(engine.method, engine.optimizer)
    assert int(run(engine, 2).guard.count) == 0


def finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(finite(v) for v in value.values())
    return not isinstance(value, Tensor) or bool(value.isfinite().all())


def words(out: Path, **options: Any) -> list[str]:
    pairs = {**DOZEN, "log_every": 10, **options}.items()
    given = [w for k, v in pairs for w in (f"--{k.replace('_', '-')}", str(v))]
    return ["train", "--out", str(out), *given]


def test_a_run_that_breaks_ends_with_a_reason_and_a_finite_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    method = f"{own}:Breaks"
    assert cli.main(words(tmp_path / "run", method=method, steps=40, log_every=40)) == 4
    message = capsys.readouterr().err.splitlines()[-1]
    assert "4 steps gave non-finite values" in message
    assert "step 8: loss part unsup" in message
    saved = checkpoint.saved_in(tmp_path / "run" / "checkpoints")
    assert [p.name for p in saved] == ["step_00000004", "step_00000008"]
    assert all(finite(checkpoint.load(p)) for p in saved)
    assert cli.main(["resume", str(tmp_path / "run")]) == 4  # it comes to the same end
    assert "step 8: loss part unsup" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lr", "told"), [(1e38, "4 steps gave"), (1e39, "net.stem.weight is not finite after step 1")]
)
def test_weights_that_overflow_are_not_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lr: float, told: str
) -> None:
    run = words(tmp_path / "run", method="supervised", lr=lr, save_every=1, log_every=12)
    assert cli.main(run) == 4
    message = capsys.readouterr().err
    assert told in message and "restart with a smaller --lr" in message
    assert all(
        finite(checkpoint.load(p)) for p in checkpoint.saved_in(tmp_path / "run/checkpoints")
    )


def test_a_few_bad_steps_are_told_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Engine.__init__

    def init(engine: Engine, *given: Any, **named: Any) -> None:
        whole(engine, *given, **named)
        spoil_loss(engine, {4, 5, 6})

    monkeypatch.setattr(Engine, "__init__", init)
    out = tmp_path / "run"
    tamatch.train(out=out, quiet=True, **{**DOZEN, "log_every": 1, "method": "fixmatch"})
    log = (out / "log.txt").read_text()
    for bad, step in enumerate((5, 6, 7), 1):
        assert f"step {step}, values were not finite; such steps are skipped ({bad} of 3)" in log
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    trained = [row["step"] for row in rows if row["kind"] == "train"]
    assert trained == [1, 2, 3, 4, 8, 9, 10, 11, 12]  # the line of step s is about step s-1


def test_a_reported_value_that_is_not_finite_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tamatch.methods.fixmatch import FixMatch

    whole = FixMatch.forward

    def forward(method: FixMatch, batch: Batch) -> Loss:
        loss = whole(method, batch)
        loss.parts["odd"] = torch.tensor(torch.nan)
        return loss

    monkeypatch.setattr(FixMatch, "forward", forward)
    with pytest.raises(NumericError, match="loss part odd is not finite"):
        tamatch.train(out=tmp_path / "run", quiet=True, **{**DOZEN, "method": "fixmatch"})


@pytest.mark.parametrize(("loss", "kept"), [(1.0, 1.0), (torch.nan, 0.0)])
def test_a_teacher_of_a_method_of_one_s_own_is_put_back(loss: float, kept: float) -> None:
    method = tiny_method("fixmatch")
    method.teacher = torch.nn.Linear(2, 2).requires_grad_(False)
    groups = optim.parameter_groups(method, lr=0.1, weight_decay=0.0)
    guard = Guard(method, optim.build_optimizer("sgd", groups))
    before = method.teacher.weight.clone()
    guard.remember()
    method.teacher.weight.add_(1)
    guard.judge(torch.tensor(loss))
    guard.undo()
    torch.testing.assert_close(method.teacher.weight - before, torch.full((2, 2), kept))
