"""One process a run: the second is turned away, and a dead one does not stand in the way."""

from __future__ import annotations

import fcntl
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

import pytest

from tamatch import cli
from tamatch.storage.files import Locked, locked, take
from tamatch.storage.folder import LOCK, RunFolder
from tests.faults.runs import DOZEN, crash_at
from tests.processes import SMALL, start, tamatch, wait_for

HOLD = (
    "import sys; from pathlib import Path; from tamatch.storage.files import locked\n"
    "with locked(Path(sys.argv[1]), 'it'):\n    print('mine', flush=True); sys.stdin.read()"
)


def holder(path: Path) -> subprocess.Popen[str]:
    """Another process that has the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "mine\n"
    return process


def test_the_second_is_told_who_the_first_is_until_that_one_ends(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    other = holder(path)
    who = f"it is in use by process {other.pid} on {platform.node()}"
    with pytest.raises(Locked, match=who), locked(path, "it"):
        pass
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert path.exists()  # what a killed process leaves behind
    with locked(path, "it"):
        assert path.read_text() == f"process {os.getpid()} on {platform.node()}\n"
    assert not path.exists()


def test_a_file_deleted_in_the_last_moment_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder let go between our opening and our locking it, and a third process was faster."""
    path, flock = tmp_path / "lock", fcntl.flock
    third: list[TextIO] = []

    def late(file: Any, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        third.append(take(path, "it"))
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(Locked), locked(path, "it"):
        pass
    third[0].close()
    with locked(path, "it"):
        pass


def files(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    "words", [["train", "--out"], ["train", "--overwrite", "--out"], ["resume"]]
)
def test_a_live_run_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:  # fmt: skip
    run = crash_at(6, monkeypatch, tmp_path / "run")
    with RunFolder(run).held():
        before = files(run)
        assert cli.main([*words, str(run)]) == 2
        assert files(run) == before
    assert f"in use by process {os.getpid()}" in capsys.readouterr().err


def test_a_stale_lock_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = crash_at(6, monkeypatch, tmp_path / "run")
    (run / LOCK).write_text("process 1 on elsewhere\n")
    assert cli.main(["resume", str(run)]) == 0
    assert not (run / LOCK).exists()


def test_a_folder_with_nothing_but_a_lock_is_empty(tmp_path: Path) -> None:
    """So looks one whose process was killed before, or inside, its very first write."""
    run = tmp_path / "run"
    run.mkdir()
    (run / LOCK).touch()
    (run / ".run.json.123.tmp").write_text('{"stat')
    with RunFolder(run).taken(overwrite=False):
        assert [p.name for p in run.iterdir()] == [LOCK]


def test_what_a_run_inside_is_writing_is_left_to_it(tmp_path: Path) -> None:
    """As folds do, which are trained inside a finished run."""
    outer, inner = RunFolder(tmp_path / "run"), RunFolder(tmp_path / "run" / "folds" / "1-of-5")
    mine, theirs = (folder.path / "model" / ".model.json.7.tmp" for folder in (outer, inner))
    with inner.held():
        for file in (mine, theirs):
            file.parent.mkdir(parents=True)
            file.touch()
        with outer.held():
            assert theirs.exists() and not mine.exists()
    with inner.held():
        assert not theirs.exists()


def test_a_lock_file_that_somebody_deleted_is_not_missed(tmp_path: Path) -> None:
    with locked(tmp_path / LOCK, "the run"):
        (tmp_path / LOCK).unlink()
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_is_no_run_gets_no_lock(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    assert cli.main(["train", "--out", str(tmp_path), "--overwrite"]) == 2
    assert cli.main(["resume", str(tmp_path)]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["photo.jpg"]


def test_overwriting_stopped_half_way_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = crash_at(6, monkeypatch, tmp_path / "run")

    def refuse(path: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        assert cli.main(["train", "--out", str(run), "--overwrite"]) == 130
    given = [w for k, v in DOZEN.items() for w in (f"--{k.replace('_', '-')}", str(v))]
    assert cli.main(["train", "--out", str(run), "--overwrite", *given]) == 0


@pytest.mark.slow
def test_two_real_processes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    long = [*SMALL, "--steps", "100000"]
    first = start("train", "--out", str(run), *long)
    wait_for(lambda: (run / "metrics.jsonl").exists() or first.poll() is not None)
    second = tamatch("train", "--out", str(run), "--overwrite", *SMALL)
    assert second.returncode == 2 and f"process {first.pid} on" in second.stderr
    assert first.poll() is None
    first.kill()
    first.communicate()
    with RunFolder(run).held():  # nobody has to be asked
        pass
