"""Filling the table: stopped, continued, shared with other processes, failing in places."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tamatch.bench import runner
from tamatch.bench.cells import Cell
from tamatch.bench.plans import DIGITS, PLANS
from tamatch.bench.results import Result, Store
from tamatch.bench.runner import Runner
from tamatch.cli import main
from tamatch.errors import NumericError, Stopped, UsageError
from tamatch.machine.launch import StopSignals
from tamatch.runs.end import Finished
from tamatch.runs.start import Job
from tamatch.runs.training import Training
from tamatch.settings.configure import configure
from tamatch.storage.files import locked
from tamatch.storage.folder import RunFolder
from tests.bench.made import result, small_recipes

WHOLE = Cell("digits", DIGITS, "fixmatch", 0, Fraction(24, 1200))
BRIEF = dataclasses.replace(WHOLE, scale=Fraction(8, 1200))


def same(result: Result) -> Result:
    """Without what differs between two equal runs."""
    return dataclasses.replace(result, seconds=0.0, made={}, abreast=0, clock=None)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    small_recipes(monkeypatch)
    return Runner(Store(tmp_path / "results"), tmp_path / "runs", {"device": "cpu"})


def test_a_run_is_made_once_and_leaves_its_result_alone(workshop: Runner) -> None:
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


def test_what_only_a_folder_shows_is_made_if_it_is_kept(
    workshop: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = dataclasses.replace(workshop, store=Store(tmp_path / "kept"), keep=True)
    assert kept.fill([BRIEF]) == 0
    folder = workshop.runs / BRIEF.name
    assert (folder / "predictions" / "pool.csv").exists() and (folder / "report.html").exists()
    shutil.rmtree(folder)
    for name in ("runs.training.predict_pool", "runs.jobs.report.write_report"):
        monkeypatch.setattr(f"tamatch.{name}", lambda *given: pytest.fail("nobody reads it"))
    assert workshop.fill([BRIEF]) == 0
    assert same(workshop.store.read(BRIEF)) == same(kept.store.read(BRIEF))


def test_a_refused_run_leaves_no_folders(workshop: Runner, tmp_path: Path) -> None:
    refused = dataclasses.replace(workshop, machine={"device": "cuda:99"})
    with pytest.raises(UsageError, match="cuda:99"):
        refused.fill([WHOLE])
    assert [*tmp_path.iterdir()] == []


def test_a_spent_budget_stops_and_the_next_call_goes_on(
    workshop: Runner,
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
        resumed.setattr(runner, "begin", lambda *given: pytest.fail("began again"))
        assert workshop.fill(cells[:1]) == 0
    uninterrupted = dataclasses.replace(workshop, store=Store(tmp_path / "again"))
    uninterrupted.fill(cells[:1])
    assert same(workshop.store.read(WHOLE)) == same(uninterrupted.store.read(WHOLE))


def test_runs_abreast_have_the_results_of_runs_alone(
    workshop: Runner, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two methods, of which one draws random numbers in its steps."""
    cells = [BRIEF, dataclasses.replace(BRIEF, method="mixmatch")]
    workshop.fill(cells)
    assert all(workshop.store.read(cell).abreast == 1 for cell in cells)
    some = dataclasses.replace(workshop, store=Store(tmp_path / "abreast"), abreast=2)
    capsys.readouterr()
    assert some.fill(cells) == 0
    assert f"[2/2] {cells[1].name}" in capsys.readouterr().err
    for cell in cells:
        found = some.store.read(cell)
        assert found.abreast == 2
        assert same(found) == same(workshop.store.read(cell))
    assert not [p for p in workshop.runs.rglob("*") if p.is_file()]


def test_runs_abreast_are_stopped_together_and_go_on(
    workshop: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cells = [dataclasses.replace(BRIEF, seed=seed) for seed in (0, 1)]
    both, log = dataclasses.replace(workshop, abreast=2), Training.log

    def stop(self: Training) -> None:
        if self.engine.steps_done == 5 and self.run.seed == 0:  # a second signal ends the process
            os.kill(os.getpid(), signal.SIGTERM)
        log(self)

    with monkeypatch.context() as patch, pytest.raises(Stopped, match=r"and 1 more; all is saved"):
        patch.setattr(Training, "log", stop)
        both.fill(cells)
    assert both.fill(cells) == 0
    alone = dataclasses.replace(workshop, store=Store(tmp_path / "alone"))
    alone.fill(cells)
    for cell in cells:
        assert same(both.store.read(cell)) == same(alone.store.read(cell))


def test_a_signal_while_results_are_written_ends_the_sweep(
    workshop: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [dataclasses.replace(BRIEF, seed=seed) for seed in (0, 1)]
    finish = Training.finish

    def finishing(self: Training) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGTERM)
        return finish(self)

    monkeypatch.setattr(Training, "finish", finishing)
    with pytest.raises(Stopped, match="the same command continues"):
        workshop.fill(cells)
    assert [workshop.store.has(cell) for cell in cells] == [True, False]


def test_one_that_another_process_makes_is_left_out_of_the_group(workshop: Runner) -> None:
    cells = [dataclasses.replace(BRIEF, seed=seed) for seed in (0, 1)]
    with locked(workshop.runs / f"{cells[0].name}.lock", cells[0].name):
        assert dataclasses.replace(workshop, abreast=2).fill(cells) == 0
    assert [workshop.store.has(cell) for cell in cells] == [False, True]
    assert workshop.store.read(cells[1]).abreast == 1


def test_seeds_of_a_row_go_together() -> None:
    cells = PLANS["lt"].cells("lt", (0, 1, 2))
    assert [group[0] for group in runner.grouped(cells, 1)] == cells
    for size in (2, 3, 5):
        groups = [*runner.grouped(cells, size)]
        assert sorted(c.name for group in groups for c in group) == sorted(c.name for c in cells)
        assert all(len({c.setting for c in group}) == 1 for group in groups)
        assert max(map(len, groups)) == size
    first = next(iter(runner.grouped(cells, 3)))
    assert [cell.seed for cell in first] == [0, 1, 2] and len({c.row for c in first}) == 1


def test_rows_that_need_other_switches_of_torch_are_kept_apart() -> None:
    """In one process, float32 would silently become TF32 beside a row in bfloat16."""
    cells = PLANS["causes"].cells("causes", (0,))
    groups = [*runner.grouped(cells, 4)]
    assert sorted(c.name for group in groups for c in group) == sorted(c.name for c in cells)
    kinds = [{c.options.get("precision") for c in group} for group in groups]
    assert {"fp32"} in kinds and all(len(kind) == 1 for kind in kinds)


def test_ctrl_c_keeps_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_recipes(monkeypatch)
    monkeypatch.chdir(tmp_path)
    log = Training.log

    def interrupted(self: Training) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        log(self)

    monkeypatch.setattr(Training, "log", interrupted)
    words = "bench digits --methods supervised --seeds 0 --steps 600"
    assert main(words.split()) == 130
    assert "all is saved, the same command continues" in capsys.readouterr().err
    run = tmp_path / "runs/bench/digits-40/supervised.s0.1of2.r1"
    assert (run / "metrics.jsonl").stat().st_size and [*run.glob("checkpoints/step_*")]
    assert not (tmp_path / "results").exists()


def test_a_run_that_another_process_makes_is_left_to_it(workshop: Runner) -> None:
    with locked(workshop.runs / f"{WHOLE.name}.lock", WHOLE.name):
        assert workshop.fill([WHOLE]) == 0
    assert not workshop.store.has(WHOLE)


def test_a_run_finished_in_the_meantime_is_not_made_again(
    workshop: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([False, True, True])
    monkeypatch.setattr(Store, "has", lambda self, cell: next(looks))
    monkeypatch.setattr(runner, "complete_all", lambda jobs, stop: pytest.fail("trained"))
    assert workshop.fill([WHOLE]) == 0


@pytest.mark.parametrize("abreast", [1, 2, 3])
def test_a_failing_run_does_not_hold_up_the_others(
    workshop: Runner, monkeypatch: pytest.MonkeyPatch, abreast: int
) -> None:
    cells = PLANS["digits"].cells("digits", (0,))[:3]

    def ends(jobs: Sequence[Job], stop: Any) -> list[Finished | NumericError]:
        bad = NumericError("the loss is nan")
        found = [bad if j.run.method == cells[1].method else fine(j) for j in jobs]
        if found == [bad]:
            raise bad
        return found

    def fine(job: Job) -> Finished:
        return Finished(job.folder.path, {})

    monkeypatch.setattr(runner, "complete_all", ends)
    monkeypatch.setattr(runner, "record", lambda cell, folder: result(cell))
    kept = dataclasses.replace(workshop, keep=True, abreast=abreast)
    assert kept.fill(cells) == 4
    assert [kept.store.has(cell) for cell in cells] == [True, False, True]


def test_a_run_begun_with_other_settings_is_refused(workshop: Runner) -> None:
    folder = workshop.runs / WHOLE.name
    folder.mkdir(parents=True)
    config = {**WHOLE.options, "lr": 0.5, "device": "cuda"}
    (folder / "run.json").write_text(json.dumps({"status": "stopped", "step": 3, "config": config}))
    with pytest.raises(UsageError, match=r"started with different settings \(lr\)"):
        workshop.fill([WHOLE])


def test_a_run_begun_from_other_weights_is_refused(workshop: Runner) -> None:
    folder = workshop.runs / WHOLE.name
    folder.mkdir(parents=True)
    config = {**WHOLE.options, "weights": "here/one.npz", "device": "cpu"}
    (folder / "run.json").write_text(json.dumps({"status": "stopped", "step": 3, "config": config}))
    with pytest.raises(
        UsageError, match=r"started from one\.npz, but .* starts from random weights"
    ):
        workshop.fill([WHOLE])
    moved = runner.begun_like(RunFolder(folder), configure({**config, "weights": "there/one.npz"}))
    assert moved.weights == "here/one.npz"  # the same file in another folder


def test_a_budget_counts_while_a_training_listens() -> None:
    with StopSignals(end=1e300) as stop:
        assert not stop.time_is_up and stop.received == 0
    past = StopSignals(end=0.0)
    assert past.time_is_up and past.received == 0  # a run that has begun does a step at least
    with past:
        assert past.received == signal.SIGTERM
