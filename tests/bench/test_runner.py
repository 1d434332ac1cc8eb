"""Filling the table: stopped, continued, shared with other processes, failing in places."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

from tamatch.bench import runner
from tamatch.bench.cells import Cell
from tamatch.bench.plans import PLANS
from tamatch.bench.record import Result
from tamatch.bench.runner import Workshop
from tamatch.bench.settings import DIGITS
from tamatch.bench.store import Store
from tamatch.errors import NumericError, UsageError
from tamatch.lock import locked
from tamatch.training import Training
from tests.bench.made import result, small_recipes

WHOLE = Cell("digits", DIGITS, "fixmatch", 0, Fraction(24, 1200))


def same(result: Result) -> Result:
    """Without what differs between two equal runs."""
    return dataclasses.replace(result, seconds=0.0, made={})


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    small_recipes(monkeypatch)
    return Workshop(Store(tmp_path / "results"), tmp_path / "runs", {"device": "cpu"})


def test_a_run_is_made_once_and_leaves_its_result_alone(workshop: Workshop) -> None:
    assert workshop.fill([WHOLE]) == 0
    found = workshop.store.read(WHOLE)
    assert found.config["steps"] == 24 and found.config["method"] == "fixmatch"
    assert "root" not in found.config  # a path of this machine
    assert len(found.error.step) == 12 and found.error.value[-1] == pytest.approx(found.error_last)
    assert len(found.kl_truth.step) == len(found.utilization.step) == 24
    assert found.r_max and found.r_max.step == found.kl_truth.step and min(found.r_max.value) >= 1
    assert found.per_class and found.per_class.step == found.error.step
    assert found.p_model and len(found.p_model.value[0]) == 10
    assert found.truth == "pool" and found.made["versions"]["tamatch"]
    assert not [p for p in workshop.runs.rglob("*") if p.is_file()]
    before = workshop.store.path(WHOLE).stat().st_mtime_ns
    assert workshop.fill([WHOLE]) == 0
    assert workshop.store.path(WHOLE).stat().st_mtime_ns == before


def test_a_spent_budget_stops_and_the_next_call_goes_on(
    workshop: Workshop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = [WHOLE, dataclasses.replace(WHOLE, seed=1)]
    with monkeypatch.context() as slowly:  # 24 steps cannot be done in half a second
        log = Training.log

        def slow(self: Training) -> None:
            time.sleep(0.05)
            log(self)

        slowly.setattr(Training, "log", slow)
        assert workshop.fill(cells, minutes=0.5 / 60) == 0
    assert "The time is up: 2 of 2 runs are left" in capsys.readouterr().err
    stopped = json.loads((workshop.runs / WHOLE.name / "run.json").read_text())
    assert stopped["status"] == "stopped" and 0 < stopped["step"] < 24
    assert not (workshop.runs / cells[1].name).exists()
    with monkeypatch.context() as resumed:
        resumed.setattr(runner, "train", lambda **options: pytest.fail("began again"))
        assert workshop.fill(cells[:1]) == 0
    uninterrupted = dataclasses.replace(workshop, store=Store(tmp_path / "again"))
    uninterrupted.fill(cells[:1])
    assert same(workshop.store.read(WHOLE)) == same(uninterrupted.store.read(WHOLE))


def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    words = "digits --methods supervised --seeds 0 --steps 600"
    process = subprocess.Popen(
        [sys.executable, "-m", "tamatch", "bench", *words.split()], cwd=tmp_path, text=True,
        stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "CI": "1", "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    metrics = tmp_path / "runs/bench/digits-40/supervised.s0.1of2.r1/metrics.jsonl"
    end = time.monotonic() + 60
    while not (metrics.exists() and metrics.stat().st_size) and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "all is saved, the same command goes on" in errors
    assert list(metrics.parent.glob("checkpoints/step_*"))
    assert not (tmp_path / "results").exists()


def test_a_run_that_another_process_makes_is_left_to_it(workshop: Workshop) -> None:
    with locked(workshop.runs / f"{WHOLE.name}.lock", WHOLE.name):
        assert workshop.fill([WHOLE]) == 0
    assert not workshop.store.has(WHOLE)


def test_a_run_finished_in_the_meantime_is_not_made_again(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([False, True, True])
    monkeypatch.setattr(Store, "has", lambda self, cell: next(looks))
    monkeypatch.setattr(runner, "train", lambda **options: pytest.fail("trained"))
    assert workshop.fill([WHOLE]) == 0


def test_a_failing_run_does_not_hold_up_the_others(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = PLANS["digits"].cells("digits", (0,))[:3]

    def train(self: Workshop, cell: Cell, folder: object) -> None:
        if cell is cells[1]:
            raise NumericError("the loss is nan")

    monkeypatch.setattr(Workshop, "train", train)
    monkeypatch.setattr(runner, "record", lambda cell, folder: result(cell))
    kept = dataclasses.replace(workshop, keep=True)
    assert kept.fill(cells) == 4
    assert [kept.store.has(cell) for cell in cells] == [True, False, True]


def test_a_run_begun_with_other_settings_is_refused(workshop: Workshop) -> None:
    folder = workshop.runs / WHOLE.name
    folder.mkdir(parents=True)
    config = {**WHOLE.options, "lr": 0.5, "device": "cuda"}
    (folder / "run.json").write_text(json.dumps({"status": "stopped", "step": 3, "config": config}))
    with pytest.raises(UsageError, match=r"begun with other settings \(lr\)"):
        workshop.fill([WHOLE])
