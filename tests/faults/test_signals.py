"""The first signal asks, the second does not; afterwards all is as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tamatch
from tamatch.errors import Stopped, TamatchError, UsageError
from tamatch.machine.launch import StopSignals
from tamatch.runs.training import Training
from tamatch.step.engine import Engine
from tamatch.storage import checkpoint
from tests.faults.runs import DOZEN, soon
from tests.processes import SMALL, fingerprint, start, wait_for

BOTH = (signal.SIGINT, signal.SIGTERM)
SLEEPY = """
import time
from pathlib import Path
from tamatch.methods.fixmatch import FixMatch

class Sleepy(FixMatch):
    def forward(self, batch):
        if batch.step > 1:  # not while it is tried before the run
            Path(__file__).with_name("asleep").touch()
            time.sleep(600)
        return super().forward(batch)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_in_seconds_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    whole = Engine.advance
    before = [signal.getsignal(n) for n in BOTH]

    def advance(engine: Engine) -> None:
        if engine.steps_done == 6:
            os.kill(os.getpid(), number)
        whole(engine)

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "advance", advance)
        with pytest.raises(Stopped, match="stopped at step 7 of 12; all is saved") as stopped:
            tamatch.train(out=run, quiet=True, **DOZEN)
    assert stopped.value.exit_code == code
    assert [signal.getsignal(n) for n in BOTH] == before
    assert checkpoint.saved_in(run / "checkpoints")[-1].name == "step_00000007"
    tamatch.resume(run, quiet=True)
    tamatch.train(out=tmp_path / "whole", quiet=True, **DOZEN)
    assert fingerprint(run) == fingerprint(tmp_path / "whole")


def test_stopped_in_its_baseline_the_whole_run_is_to_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, options = tmp_path / "run", {**DOZEN, "baseline": "supervised"}
    learn = Engine.advance

    def advance(engine: Engine) -> None:
        if not engine.method.views.u:  # the baseline
            os.kill(os.getpid(), signal.SIGINT)
        learn(engine)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "advance", advance)
        with pytest.raises(Stopped, match=f"`tamatch resume {run}` continues from there"):
            tamatch.train(out=run, quiet=True, **options)
    with pytest.raises(
        UsageError, match=f"baseline is unfinished: `tamatch resume {run}` continues"
    ):
        tamatch.train(out=run, quiet=True, **options)
    tamatch.resume(run, quiet=True)
    with pytest.raises(UsageError, match="already contains a finished run"):
        tamatch.train(out=run, quiet=True, **options)


@pytest.mark.parametrize("number", BOTH)
def test_a_signal_while_results_are_written_stops_before_the_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    run, finish = tmp_path / "run", Training.finish

    def finishing(training: Training) -> dict[str, Any]:
        os.kill(os.getpid(), number)
        return finish(training)

    with monkeypatch.context() as patch:
        patch.setattr(Training, "finish", finishing)
        with pytest.raises(Stopped, match=f"`tamatch resume {run}` continues") as stopped:
            tamatch.train(out=run, quiet=True, **{**DOZEN, "baseline": "supervised"})
    assert stopped.value.exit_code == 128 + number
    assert (run / "result.json").exists() and not (run / "baseline" / "metrics.jsonl").exists()
    assert tamatch.resume(run, quiet=True).baseline is not None


def test_a_sweep_that_catches_errors_stops_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    whole = Engine.advance

    def advance(engine: Engine) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        whole(engine)

    monkeypatch.setattr(Engine, "advance", advance)
    with pytest.raises(tamatch.errors.Stopped):
        for name in ("first", "second"):
            started.append(name)
            with suppress(TamatchError, Exception):
                tamatch.train(out=tmp_path / name, quiet=True, **DOZEN)
    assert started == ["first"] and issubclass(Stopped, KeyboardInterrupt)


@pytest.mark.parametrize("number", BOTH)
def test_handlers_come_back_after_an_error(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(ZeroDivisionError), StopSignals() as stop:
        os.kill(os.getpid(), number)
        assert stop.received == number
        raise ZeroDivisionError
    assert signal.getsignal(number) == before


def test_a_second_signal_ends_a_process_that_does_not_listen(tmp_path: Path) -> None:
    """Its step takes ten minutes, so the first signal has to wait."""
    own = tmp_path / "own.py"
    own.write_text(SLEEPY)
    words = ["--method", f"{own}:Sleepy", *SMALL]
    process = start("train", "--out", str(tmp_path / "run"), *words)
    wait_for(lambda: (tmp_path / "asleep").exists() or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    with pytest.raises(Exception, match="timed out"):
        process.communicate(timeout=1)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143 and time.monotonic() - began < soon()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_real_process_stops_in_seconds(tmp_path: Path, number: signal.Signals, code: int) -> None:
    run = tmp_path / "run"
    process = start("train", "--out", str(run), *SMALL, "--steps", "100000")
    rows = run / "metrics.jsonl"
    wait_for(lambda: (rows.exists() and rows.stat().st_size > 0) or process.poll() is not None)
    began = time.monotonic()
    process.send_signal(number)
    told: Any = process.communicate(timeout=60)
    assert process.returncode == code, told
    assert time.monotonic() - began < soon()
    assert checkpoint.newest(run / "checkpoints")[0] is not None


def test_ctrl_c_while_modules_are_loaded_is_told_in_one_line() -> None:
    """The first quarter of a second of every command."""
    early = """
import os, signal, sys
from tamatch.cli import main

class Interrupts:
    def find_spec(self, name, *_):
        if name == "tamatch.cli.commands":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
sys.exit(main(["methods"]))
"""
    done = subprocess.run([sys.executable, "-c", early], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "tamatch: stopped.\n")


def test_ctrl_c_before_the_baseline_s_first_step_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    run = tmp_path / "run"
    options = {**DOZEN, "baseline": "supervised"}
    with monkeypatch.context() as patch:
        patch.setattr("tamatch.runs.jobs.begin_baseline", interrupted)
        with pytest.raises(Stopped, match=f"stopped. `tamatch resume {run}` continues.") as stopped:
            tamatch.train(out=run, quiet=True, **options)
    assert stopped.value.exit_code == 130
    assert tamatch.resume(run, quiet=True).baseline is not None
    with monkeypatch.context() as patch:  # nothing is there to go on with
        patch.setattr("tamatch.runs.jobs.at_checkpoint", interrupted)
        with pytest.raises(KeyboardInterrupt) as ended:
            tamatch.train(out=tmp_path / "other", quiet=True, **options)
    assert not isinstance(ended.value, Stopped)


def test_a_closed_terminal_is_waited_for_and_saved(tmp_path: Path) -> None:
    """It sends SIGHUP more than once, and takes no output any more."""
    run = tmp_path / "run"
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
    process = start("train", "--out", str(run), *SMALL, "--steps", "100000")
    signal.signal(signal.SIGHUP, before)
    rows = run / "metrics.jsonl"
    wait_for(lambda: (rows.exists() and rows.stat().st_size > 0) or process.poll() is not None)
    assert process.stdout and process.stderr
    process.stdout.close()
    process.stderr.close()
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=60) == 128 + signal.SIGHUP
    assert checkpoint.newest(run / "checkpoints")[0] is not None
    assert json.loads((run / "run.json").read_text())["status"] == "stopped"


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop.received == 0
    finally:
        signal.signal(signal.SIGHUP, before)
