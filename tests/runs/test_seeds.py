"""Several seeds in one process: each ends as if it were alone, whatever happens on the way."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest

import tamatch
from tamatch import cli
from tamatch.errors import NumericError, Stopped, StorageError, UsageError
from tamatch.machine.memory import OutOfMemory
from tamatch.progress import Progress, describe
from tamatch.rules.pace import Speed
from tamatch.runs import jobs, seeds, speed
from tamatch.runs import start as starting
from tamatch.runs.decide import decide
from tamatch.runs.end import Finished
from tamatch.runs.record import begin
from tamatch.runs.training import Training
from tamatch.settings.configure import ask, configure
from tamatch.step.engine import Engine
from tamatch.storage import checkpoint
from tamatch.storage.files import read_json
from tamatch.storage.folder import RunFolder
from tests.faults.runs import ANY_DATA, DOZEN, Crash, crash_at, own_folder
from tests.faults.test_numbers import spoil_loss
from tests.processes import SMALL, fingerprint, start, wait_for
from tests.processes import tamatch as command

PAIR = (0, 3)
METHODS = ("mixmatch", "vat", "tamatch")  # the first two draw random numbers inside the step


def end_of(path: Path) -> dict[str, Any]:
    """All that a run leaves behind, but times and its own path."""
    record = read_json(path / "run.json")
    timed = {"times", "command", "versions", "seal", "files", "metrics"}  # result.json has seconds
    return {**fingerprint(path), "record": {k: v for k, v in record.items() if k not in timed}}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """The ends of the runs of DOZEN, each in a command of its own."""
    place = tmp_path_factory.mktemp("alone")
    return {
        seed: end_of(tamatch.train(out=place / str(seed), quiet=True, seed=seed, **DOZEN).path)
        for seed in PAIR
    }


def ends(home: Path) -> dict[int, dict[str, Any]]:
    return {seed: end_of(home / f"s{seed}") for seed in PAIR}


@pytest.mark.sample(1)
@pytest.mark.parametrize("method", METHODS)
def test_each_seed_ends_as_if_it_were_alone(tmp_path: Path, method: str) -> None:
    options = {**DOZEN, "method": method, "baseline": "supervised"}
    together = tamatch.train_seeds(PAIR, out=tmp_path / "both", quiet=True, **options)
    for seed, finished in zip(PAIR, together, strict=True):
        own = tamatch.train(out=tmp_path / f"{seed}", quiet=True, seed=seed, **options)
        assert finished.path == tmp_path / "both" / f"s{seed}"
        assert finished.accuracy == own.accuracy and finished.report_path.exists()
        assert end_of(finished.path) == end_of(own.path)
        assert end_of(finished.path / "baseline") == end_of(own.path / "baseline")
    first, second = (fingerprint(finished.path) for finished in together)
    assert first["model"] != second["model"]


def test_a_signal_stops_all_and_all_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[int, dict[str, Any]]
) -> None:
    whole, home = Engine.advance, tmp_path / "both"

    def advance(engine: Engine) -> None:
        if engine.steps_done == 6:
            os.kill(os.getpid(), signal.SIGTERM)
            monkeypatch.undo()
        whole(engine)

    monkeypatch.setattr(Engine, "advance", advance)
    with pytest.raises(
        Stopped, match=f"all is saved. `tamatch resume {home}` continues"
    ) as stopped:
        tamatch.train_seeds(PAIR, out=home, quiet=True, **DOZEN)
    assert stopped.value.exit_code == 143
    for seed in PAIR:
        record = read_json(home / f"s{seed}" / "run.json")
        assert (record["status"], record["step"]) == ("stopped", 7)
    tamatch.resume_seeds(home, quiet=True)
    assert ends(home) == alone
    assert [run["seed"] for run in read_json(home / "seeds.json")["runs"]] == [*PAIR]


@pytest.mark.parametrize(("name", "values"), [("threads", (1, 2)), ("precision", ("fp32", "bf16"))])
def test_runs_that_need_other_switches_of_torch_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, values: tuple[Any, Any]
) -> None:
    """Each would get those of the last one, and not end as if it were alone."""
    a, b = (crash_at(1, monkeypatch, tmp_path / str(v), **{name: v}) for v in values)
    told = f"{a} trains with --{name} {values[0]} and {b} with {values[1]}, but"
    with pytest.raises(UsageError, match=told):
        tamatch.resume_seeds(a, b, quiet=True)
    assert tamatch.resume_seeds(a, quiet=True)


def test_seeds_at_different_steps_become_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[int, dict[str, Any]]
) -> None:
    """One died after its checkpoint of step 8, the other before that, and had step 4."""
    home, save, whole = tmp_path / "both", Training.save, Engine.advance

    def crash(training: Training) -> None:
        if training.run.seed == 3 and training.engine.steps_done == 8:
            raise Crash
        save(training)

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(Training, "save", crash)
        tamatch.train_seeds(PAIR, out=home, quiet=True, **DOZEN)
    saved = [checkpoint.saved_in(home / f"s{seed}" / "checkpoints")[-1].name for seed in PAIR]
    assert saved == ["step_00000008", "step_00000004"]
    order: list[int] = []

    def advance(engine: Engine) -> None:
        order.append(engine.steps_done)
        whole(engine)

    monkeypatch.setattr(Engine, "advance", advance)
    tamatch.resume_seeds(home, quiet=True)
    assert order == [4, 5, 6, 7, 8, 8, 9, 9, 10, 10, 11, 11]
    assert ends(home) == alone


def test_one_of_them_can_be_resumed_alone_and_is_left_as_it_is_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[int, dict[str, Any]]
) -> None:
    home, whole = tmp_path / "both", Engine.advance

    def advance(engine: Engine) -> None:
        if engine.steps_done == 6:
            raise Crash
        whole(engine)

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(Engine, "advance", advance)
        tamatch.train_seeds(PAIR, out=home, quiet=True, **DOZEN)
    tamatch.resume(home / "s3", quiet=True)
    written = (home / "s3" / "metrics.jsonl").stat().st_mtime_ns
    tamatch.resume_seeds(home / "s0", home / "s3", quiet=True)
    assert (home / "s3" / "metrics.jsonl").stat().st_mtime_ns == written
    assert ends(home) == alone


@pytest.mark.slow
def test_kill_9_of_a_real_process(tmp_path: Path) -> None:
    home, single = tmp_path / "both", tmp_path / "single"
    process = start("train", "--seeds", "0,1", "--out", str(home), *SMALL)
    rows = home / "s1" / "metrics.jsonl"
    wait_for(lambda: (rows.exists() and rows.stat().st_size > 0) or process.poll() is not None)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    done = command("resume", str(home))
    assert done.returncode == 0, done.stderr
    assert command("train", "--seed", "1", "--out", str(single), *SMALL).returncode == 0
    assert fingerprint(home / "s1") == fingerprint(single)
    assert "seed 1: step 60/60" in done.stderr and "mean ± std (n − 1)" in done.stdout


@pytest.mark.parametrize("baseline", ["none", "supervised"])
def test_one_that_breaks_ends_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    alone: dict[int, dict[str, Any]],
    baseline: str,
) -> None:
    home, go = tmp_path / "both", jobs.train_to_end

    def spoilt(trainings: Any, stop: Any) -> Any:
        for training in trainings:
            if training.run.seed == 3:
                spoil_loss(training.engine, set(range(2, 99)))
        return go(trainings, stop)

    monkeypatch.setattr(jobs, "train_to_end", spoilt)
    given = {**DOZEN, "baseline": baseline, "seeds": "0,3", "out": home}
    words = [w for k, v in given.items() for w in (f"--{k.replace('_', '-')}", str(v))]
    assert cli.main(["train", *words]) == 4
    out, told = capsys.readouterr()
    assert "seed 3: 4 steps gave non-finite values" in told
    assert "The other runs continue." in told
    assert told.splitlines()[-1].startswith("tamatch: seed 3: 4 steps gave")
    assert "seed 3" in out and "failed" in out
    record = read_json(home / "seeds.json")
    assert "step 5: loss part sup" in record["runs"][1]["failed"]
    assert record["error"] == {"mean": record["runs"][0]["error"], "std": None}
    assert (home / "s0" / "report.html").exists() and not (home / "s3" / "result.json").exists()
    assert (home / "s0" / "baseline").exists() == (baseline == "supervised")
    assert not (home / "s3" / "baseline").exists()
    assert fingerprint(home / "s0")["state"] == alone[0]["state"]


def test_a_run_whose_baseline_breaks_has_failed(tmp_path: Path) -> None:
    job = jobs.Job(configure({}), RunFolder(tmp_path), Progress(tmp_path / "log.txt"))
    ended, broken = {"error_last": 4.0}, NumericError("not finite")
    assert jobs.end_of(job, ended, broken) is jobs.end_of(job, broken, None) is broken
    assert jobs.end_of(job, ended, ended) == Finished(tmp_path, ended, ended)


def test_the_figures_are_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tamatch.train_seeds(
        [0, 1, 2], out=tmp_path / "all", quiet=True, **{**DOZEN, "baseline": "supervised"}
    )
    record = read_json(tmp_path / "all" / "seeds.json")
    errors = [100 - (f.accuracy or 0) for f in made]
    assert record["seeds"] == [0, 1, 2] and record["ddof"] == 1
    assert [row["error"] for row in record["runs"]] == pytest.approx(errors)
    assert record["error"] == pytest.approx({"mean": mean(errors), "std": stdev(errors)})
    based = [100 - (f.baseline_accuracy or 0) for f in made]
    assert [row["baseline_error"] for row in record["runs"]] == pytest.approx(based)
    assert based != pytest.approx(errors) and 0 <= record["utilization"]["mean"] <= 1
    assert cli.main(["resume", str(tmp_path / "all")]) == 0  # all of it is finished
    shown = capsys.readouterr().out
    assert f"{mean(errors):.2f} ± {stdev(errors):.2f} %" in shown and "supervised" in shown
    assert "Which is better? " in shown and " % with supervised" in shown


def test_images_are_read_once_and_held_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, held, read, go = [], [], starting.data_of, jobs.train_to_end

    def counted(*given: Any) -> Any:
        reads.append(given)
        return read(*given)

    def looked_at(trainings: Any, stop: Any) -> Any:
        held.append([t.held_out["test"].images for t in trainings])
        return go(trainings, stop)

    monkeypatch.setattr(starting, "data_of", counted)
    monkeypatch.setattr(jobs, "train_to_end", looked_at)
    tamatch.train_seeds(PAIR, out=tmp_path / "both", quiet=True, **DOZEN)
    assert len(reads) == 1
    [(first, second)] = held
    assert first is second


def test_held_out_images_are_shared_only_if_they_are_the_same() -> None:
    data = tamatch.data.load("digits")
    place, parts = starting.SharedData(), (np.arange(5), np.arange(5), np.arange(6))
    one, two, other = (place.subset(data, part, None) for part in parts)
    assert one is two and one is not other and len(other) == 6


def test_too_little_memory_names_how_many_have_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def learn(engine: Engine, batch: Any) -> None:
        raise OutOfMemory("no room")

    monkeypatch.setattr(Engine, "learn", learn)
    with pytest.raises(OutOfMemory, match=r"2 runs at the same time do not fit.* 1 at a time"):
        tamatch.train_seeds(PAIR, out=tmp_path / "both", quiet=True, **DOZEN)


def test_room_is_made_for_the_one_that_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[int, dict[str, Any]]
) -> None:
    learn, home = Engine.learn, tmp_path / "both"
    missing = [True]

    def scarce(engine: Engine, batch: Any) -> None:
        if engine.steps_done == 5 and missing:
            missing.clear()
            engine.guard.remember()
            raise OutOfMemory("no room")
        learn(engine, batch)

    monkeypatch.setattr(Engine, "learn", scarce)
    tamatch.train_seeds(PAIR, out=home, quiet=True, **DOZEN)
    assert "ran out of memory in step 5" in (home / "s0" / "log.txt").read_text()
    assert "ran out of memory" not in (home / "s3" / "log.txt").read_text()
    assert all(fingerprint(home / f"s{s}")["rows"] == alone[s]["rows"] for s in PAIR)


def test_a_full_disk_names_the_command_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[int, dict[str, Any]]
) -> None:
    home, save = tmp_path / "both", checkpoint.save

    def full(folder: Path, step: int, state: Any) -> Path:
        if step == 8 and "s3" in folder.parts:
            raise StorageError("no space left.")
        return save(folder, step, state)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", full)
        with pytest.raises(StorageError, match=f"again, `tamatch resume {home}` continues"):
            tamatch.train_seeds(PAIR, out=home, quiet=True, **DOZEN)
    tamatch.resume_seeds(home, quiet=True)
    assert ends(home) == alone


def test_memory_is_estimated_for_all_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tamatch.step.cost.available_memory", lambda device: 2**20)
    tamatch.train_seeds(PAIR, out=tmp_path / "both", **{**DOZEN, "steps": 2})
    told = [line for line in capsys.readouterr().err.splitlines() if "of memory" in line]
    records = [read_json(tmp_path / "both" / f"s{seed}" / "run.json") for seed in PAIR]
    total = sum(record["memory"]["total"] for record in records) / 2**30
    assert told == [
        f"Training 2 runs in parallel takes about {total:.2f} GiB of memory; there are 0.00 GiB."
        " The system may end it: a smaller --batch and --unlabelled need less."
    ]


def test_without_out_each_has_its_usual_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    short = {**DOZEN, "steps": 2}
    first = tamatch.train_seeds("0,1", quiet=True, **short)
    assert [str(f.path) for f in first] == ["runs/digits-tamatch-s0", "runs/digits-tamatch-s1"]
    with pytest.raises(UsageError, match=r"`tamatch resume runs/\S+-s0 runs/\S+-s1` continues"):
        tamatch.train_seeds([0, 1], quiet=True, **short)
    again = tamatch.train_seeds([0, 1], quiet=True, overwrite=True, **short)
    assert [f.result["error_last"] for f in again] == [f.result["error_last"] for f in first]
    later = tamatch.train_seeds([0, 1], quiet=True, from_=first[0].path, steps=2)
    assert [f.path.name for f in later] == [f"digits-tamatch-s0-2-s{seed}" for seed in (0, 1)]


def test_time_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "speed_of", lambda *given: Speed(1.0, 0.01, 0.1))
    asked = ask({name: value for name, value in DOZEN.items() if name != "steps"})
    steps = [decide(asked, "2m", runs).run.steps for runs in (1, 3)]
    assert steps[0] > 2.5 * steps[1]


def test_own_images(tmp_path: Path) -> None:
    """What is chosen for them is chosen once, and is the same for all."""
    options = {k: v for k, v in ANY_DATA.items() if k not in ("batch", "unlabelled", "net")}
    made = tamatch.train_seeds(
        PAIR, out=tmp_path / "both", quiet=True, data=own_folder(tmp_path / "own"), **options
    )
    records = [read_json(finished.path / "run.json") for finished in made]
    assert records[0]["chosen"] == records[1]["chosen"]
    different = {k for k, v in records[0]["config"].items() if records[1]["config"][k] != v}
    assert different == {"seed"}


def test_no_run_to_resume_is_told() -> None:
    with pytest.raises(UsageError, match="takes one or more run folders"):
        tamatch.resume_seeds()


def test_a_record_of_seeds_is_not_believed_blindly(tmp_path: Path) -> None:
    (tmp_path / "seeds.json").write_text('{"seeds": 5}')
    with pytest.raises(tamatch.errors.DataError, match="seeds is 5, not a list"):
        tamatch.resume_seeds(tmp_path)


def test_a_command_killed_at_its_very_start_can_be_given_again(tmp_path: Path) -> None:
    """Nothing was trained yet, so that nothing is lost."""
    home, short = tmp_path / "both", {**DOZEN, "steps": 2}
    seeds.SeedFolder(home).claim([0, 3])
    begin(configure({**short, "seed": 0}), RunFolder(home / "s0"))
    with pytest.raises(UsageError, match="is not a folder"):
        tamatch.resume_seeds(home, quiet=True)
    assert len(tamatch.train_seeds(PAIR, out=home, quiet=True, **short)) == 2


def test_runs_share_one_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    screen = seeds.Screen()
    screen.live = True
    one, two = (Progress(screen=screen, name=f"seed {i}") for i in (0, 1))
    with one.bar(0, 10), two.bar(4, 10):
        assert screen.bar is not None
        two.trained({"step": 6, "sup": 0.5})
        shown = [(task.completed, task.description) for task in screen.bar.tasks]
    assert shown[0][0] == 0 and shown[1][0] == 6
    assert shown[0][1] == "seed 0" and shown[1][1].startswith("seed 1 · ")
    assert screen.bar is None


def test_a_plain_line_says_how_long_it_will_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter((100.0, 110.0, 110.0, 110.0))  # ten seconds for the first two steps
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock, 110.0))
    progress = Progress()
    progress.screen.live = False
    with progress.bar(0, 2002):
        progress.trained({"step": 2, "sup": 0.5})
        said = capsys.readouterr().err
    assert "step 2/2,002 · 0.2 steps/s · ETA 2:46:40 · " in said


@pytest.mark.parametrize(
    ("target", "distance"),
    [((0.5, 0.5), "0.000"), ((0.25, 0.75), "0.144"), ((1.0, 0.0), "inf")],
)
def test_the_distance_to_the_target(target: tuple[float, float], distance: str) -> None:
    """A class that the target rules out, but the model predicts, is infinitely far away."""
    assert describe({"p_model": (0.5, 0.5), "p_target": target}) == [
        f"KL(p_model‖target) {distance}"
    ]


def test_one_seed_has_one_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "--seeds", "4", "--out", str(tmp_path), *SMALL, "--steps", "2"]) == 0
    assert capsys.readouterr().out.endswith(f"Report: {tmp_path / 's4' / 'report.html'}\n")


def test_the_command_says_what_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--seeds", "0,1", "--out", str(tmp_path / "r"), *SMALL, "--steps", "8"]
    assert cli.main(["train", *words]) == 0
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert [line for line in lines if line.startswith("seed 0: step 8/8 · ")]
    assert [line for line in lines if line.startswith("seed 1: step 8/8 · ")]
    log = (tmp_path / "r" / "s1" / "log.txt").read_text()
    assert "step 8/8 · " in log and "seed 1" not in log
    assert "seed 0" in shown.out and "report.html in each run" in shown.out
    assert json.loads((tmp_path / "r" / "seeds.json").read_text())["seeds"] == [0, 1]
