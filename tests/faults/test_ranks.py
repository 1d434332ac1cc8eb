"""One of two processes dies, or all are asked to stop: the run ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tamatch.storage import checkpoint
from tests.dist.torchrun import DOZEN, launch, torchrun
from tests.processes import fingerprint, wait_for

MORTAL = """
import os, signal, time
from pathlib import Path
from tamatch.methods.fixmatch import FixMatch

KILLED = os.environ.get("KILLED", "").split()  # process and step
BEFORE = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"

class Mortal(FixMatch):
    def forward(self, batch):
        if BEFORE and [os.environ["RANK"], str(int(batch.step))] == KILLED:
            os.kill(os.getpid(), signal.SIGKILL)
        if "SLEEPY" in os.environ and int(batch.step) > 1:  # not when it is tried before the run
            Path(__file__).with_name("awake").touch()
            time.sleep(0.2)
        return super().forward(batch)
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A method of one's own that ends its process where it is told to."""
    file = tmp_path_factory.mktemp("own") / "own.py"
    file.write_text(MORTAL)
    return file


@pytest.fixture(scope="module")
def whole(own: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The end of a run in which nobody died."""
    run = tmp_path_factory.mktemp("whole") / "run"
    code, said = torchrun(*words(own, run))
    assert code == 0, said
    return fingerprint(run)


def words(own: Path, run: Path) -> list[str]:
    return ["train", "--out", str(run), "--method", f"{own}:Mortal", *DOZEN]


def survive(own: Path, whole: dict[str, Any], run: Path, rank: int, step: int) -> None:
    code, said = torchrun(*words(own, run), restarts=1, KILLED=f"{rank} {step}")
    assert code == 0, said
    assert "SIGKILL" in said or "exitcode: -9" in said
    assert fingerprint(run) == whole


@pytest.mark.slow
def test_a_killed_process_is_restarted(own: Path, whole: dict[str, Any], tmp_path: Path) -> None:
    survive(own, whole, tmp_path / "run", rank=1, step=6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_killed_process_at_random_steps(
    own: Path, whole: dict[str, Any], tmp_path: Path, seed: int
) -> None:
    choose = random.Random(seed)
    survive(own, whole, tmp_path / "run", choose.randrange(2), choose.randrange(12))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_both_at_one_step(
    own: Path, whole: dict[str, Any], tmp_path: Path, number: signal.Signals
) -> None:
    run = tmp_path / "run"
    (own.parent / "awake").unlink(missing_ok=True)
    process = launch(*words(own, run), SLEEPY="yes")
    wait_for(lambda: (own.parent / "awake").exists() or process.poll() is not None)
    process.send_signal(number)
    said = "".join(process.communicate(timeout=60))
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "stopped" and 0 < record["step"] < 12, said
    assert said.count(f"stopped at step {record['step']} of 12; all is saved") == 1
    assert checkpoint.saved_in(run / "checkpoints")[-1].name == f"step_{record['step']:08d}"
    code, said = torchrun("resume", str(run))
    assert code == 0, said
    assert fingerprint(run) == whole


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_who_is_waited_for_is_said(own: Path, tmp_path: Path, rank: int) -> None:
    """A process that is stopped (SIGSTOP) holds up the other, which says so and waits."""
    said = tmp_path / "said"
    (own.parent / "awake").unlink(missing_ok=True)
    with said.open("w") as file:
        process = launch(
            *words(own, tmp_path / "run"), module="tests.dist.watched", to=file, SLEEPY="yes"
        )
        wait_for(lambda: (own.parent / "awake").exists() or process.poll() is not None)
        found = re.search(rf"rank {rank} is (\d+)", said.read_text())
        assert found is not None, said.read_text()
        stopped = int(found[1])
        os.kill(stopped, signal.SIGSTOP)
        try:
            waiting = f"waiting for process {rank} of 2, without a sign of life for "
            wait_for(lambda: said.read_text().count(waiting) >= 2)  # and again after a while
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert process.wait(timeout=120) == 0, said.read_text()
    assert said.read_text().count("all processes are there again") == 1
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"
