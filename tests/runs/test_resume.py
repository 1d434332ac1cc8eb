"""Stopped at any moment and resumed, a run ends as if nothing had happened, to the last bit."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest

from tamatch.cli import main
from tests.processes import SMALL, fingerprint, start, tamatch, wait_for

SAVE_EVERY = int(SMALL[SMALL.index("--save-every") + 1])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped, with one thread as the processes have."""
    run = tmp_path_factory.mktemp("whole") / "run"
    assert main(["train", "--out", str(run), *SMALL, "--threads", "1"]) == 0
    return run


@pytest.fixture(scope="module")
def whole(finished: Path) -> dict[str, object]:
    """Its end."""
    return fingerprint(finished)


def checkpoints(run: Path) -> list[str]:
    folder = run / "checkpoints"
    return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []


def lost_steps(run: Path) -> int:
    """Steps that were logged and have to be computed again."""
    lines = (run / "metrics.jsonl").read_text().splitlines() if checkpoints(run) else []
    whole = [json.loads(line) for line in lines if line.endswith("}")]
    saved = [int(name.removeprefix("step_")) for name in checkpoints(run) if name[0] != "."]
    return max([row["step"] for row in whole], default=0) - max(saved, default=0)


def kill_once(run: Path, words: list[str], delay: float) -> bool:
    """Start, wait for the first sign of training, kill -9 after `delay`; False if it had ended."""
    process = start(*words)
    wait_for(lambda: (run / "batch.png").exists() or process.poll() is not None)
    time.sleep(delay)
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def survive_kills(tmp_path: Path, whole: dict[str, object], seed: int) -> None:
    """Kill a run one to three times at random moments, then let it end."""
    choose = random.Random(seed)
    run = tmp_path / f"run{seed}"
    if not kill_once(run, ["train", "--out", str(run), *SMALL], choose.uniform(0, 1.5)):
        assert fingerprint(run) == whole
        return
    assert lost_steps(run) <= SAVE_EVERY
    for _ in range(choose.randrange(3)):
        kill_once(run, ["resume", str(run)], choose.uniform(0, 1.0))
        assert lost_steps(run) <= SAVE_EVERY
    assert main(["resume", str(run)]) == 0
    assert fingerprint(run) == whole


def test_kill_9_at_a_random_moment(tmp_path: Path, whole: dict[str, object]) -> None:
    survive_kills(tmp_path, whole, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 50))
def test_kill_9_many_times(tmp_path: Path, whole: dict[str, object], seed: int) -> None:
    survive_kills(tmp_path, whole, seed)


@pytest.mark.slow
def test_kill_9_inside_a_save(tmp_path: Path, whole: dict[str, object]) -> None:
    """The temporary folder of a checkpoint is the sign that a save is under way."""
    run = tmp_path / "run"
    process = start("train", "--out", str(run), *SMALL)
    wait_for(lambda: any(n.startswith(".") for n in checkpoints(run)) or process.poll() is not None)
    process.kill()
    process.communicate()
    assert main(["resume", str(run)]) == 0
    assert fingerprint(run) == whole
    assert not [n for n in checkpoints(run) if n.startswith(".")]


@pytest.mark.slow  # faults/test_signals.py has the same in this process
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_polite_signal_saves_first(
    tmp_path: Path, whole: dict[str, object], number: signal.Signals, code: int
) -> None:
    run = tmp_path / "run"
    process = start("train", "--out", str(run), *SMALL)
    rows = run / "metrics.jsonl"
    wait_for(lambda: rows.exists() and rows.stat().st_size > 0)
    process.send_signal(number)
    _, error = process.communicate(timeout=30)
    assert process.returncode == code, error
    assert "resume" in error
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "stopped" and 0 < record["step"] < 60
    assert main(["resume", str(run)]) == 0
    assert fingerprint(run) == whole


def test_resuming_a_finished_run_changes_nothing(finished: Path, whole: dict[str, object]) -> None:
    assert main(["resume", str(finished)]) == 0
    assert fingerprint(finished) == whole


@pytest.mark.slow
def test_the_baseline_resumes_too(tmp_path: Path) -> None:
    words = [*SMALL[:-1], "supervised"]
    one, two = tmp_path / "one", tmp_path / "two"
    assert tamatch("train", "--out", str(one), *words).returncode == 0
    process = start("train", "--out", str(two), *words)
    wait_for(lambda: (two / "baseline" / "metrics.jsonl").exists() or process.poll() is not None)
    process.kill()
    process.communicate()
    assert tamatch("resume", str(two)).returncode == 0
    assert fingerprint(two / "baseline") == fingerprint(one / "baseline")
    assert fingerprint(two) == fingerprint(one)
