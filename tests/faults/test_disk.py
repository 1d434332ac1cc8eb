"""No room for the n-th write, or a kill inside it: nothing that was saved is lost."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tamatch
from tamatch import cli
from tamatch.errors import StorageError
from tamatch.storage import checkpoint
from tamatch.storage.files import append_line, write_bytes
from tests.faults.disk import Disk, full
from tests.faults.runs import WORDS
from tests.processes import environment, fingerprint

NEVER = 10**9
PARTS = 4  # that the tests of every write are cut into, for several workers


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The end of a run that nothing happened to, and the files it wrote, in order."""
    run = tmp_path_factory.mktemp("whole") / "run"
    with Disk(full, NEVER).inserted() as disk:
        assert cli.main(["train", "--out", str(run), *WORDS]) == 0
    return {"end": fingerprint(run), "writes": disk.writes}


def go_on(run: Path) -> None:
    """As the message says: resume what there is, or give the same command again."""
    again = ["resume", str(run)] if (run / "run.json").exists() else ["train", "--out", str(run)]
    assert cli.main([*again, *(WORDS if again[0] == "train" else [])]) == 0


def survive_full(
    run: Path, whole: dict[str, Any], after: int, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    with Disk(full, after).inserted() as disk:
        assert cli.main(["train", "--out", str(run), *WORDS]) == 3
    message = capsys.readouterr().err.splitlines()[-1]
    refused = re.search(r"tamatch: (\S+) cannot be written: No space left on device", message)
    assert refused and Path(refused[1]).name in disk.writes[after], message
    saved = checkpoint.saved_in(run / "checkpoints")
    assert not saved or f"The checkpoint {saved[-1].name} is intact." in message
    for path in saved:
        checkpoint.load(path)
    if (run / "metrics.jsonl").exists():
        [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    go_on(run)
    assert fingerprint(run) == whole["end"]
    assert not [*run.rglob("*.tmp")]


@pytest.mark.parametrize("file", ["run.json", "split.csv", "state.pt", "metrics.jsonl", "result"])
def test_no_room_for_a_file(
    tmp_path: Path, whole: dict[str, Any], capsys: pytest.CaptureFixture[str], file: str
) -> None:
    """The last write to it before the end."""
    after = max(i for i, name in enumerate(whole["writes"]) if file in name)
    survive_full(tmp_path / "run", whole, after, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(PARTS))
def test_no_room_at_any_write(
    tmp_path: Path, whole: dict[str, Any], capsys: pytest.CaptureFixture[str],
    record_property: Any, first: int,
) -> None:  # fmt: skip
    tries = range(first, len(whole["writes"]), PARTS)
    for after in tries:
        survive_full(tmp_path / str(after), whole, after, capsys)
    record_property("tries", len(tries))


def survive_kill(run: Path, whole: dict[str, Any], after: int) -> None:
    words = [sys.executable, "-m", "tests.faults.disk", "kill", str(after)]
    done = subprocess.run(
        [*words, "train", "--out", str(run), *WORDS], env=environment(), capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    go_on(run)
    assert fingerprint(run) == whole["end"]
    assert not [*run.rglob("*.tmp")]


def test_killed_inside_the_write_of_a_checkpoint(tmp_path: Path, whole: dict[str, Any]) -> None:
    after = [i for i, name in enumerate(whole["writes"]) if "state.pt" in name][1]
    survive_kill(tmp_path / "run", whole, after)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(PARTS))
def test_killed_inside_any_write(
    tmp_path: Path, whole: dict[str, Any], record_property: Any, first: int
) -> None:
    tries = range(first, len(whole["writes"]), PARTS)
    for after in tries:
        survive_kill(tmp_path / str(after), whole, after)
    record_property("tries", len(tries))


@pytest.mark.slow
def test_a_limit_of_the_system(tmp_path: Path, whole: dict[str, Any]) -> None:
    """A real process that may not write files as large as its checkpoint."""
    run = tmp_path / "run"
    process = subprocess.run(
        [sys.executable, "-m", "tamatch", "train", "--out", str(run), *WORDS],
        env=environment(), capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )  # fmt: skip
    assert process.returncode == 3, process.stderr
    assert "state.pt cannot be written: File too large" in process.stderr
    go_on(run)
    assert fingerprint(run) == whole["end"]


def test_a_line_is_appended_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    append_line(file, "first")
    with Disk(full, 0).inserted(), pytest.raises(StorageError, match="No space left"):
        append_line(file, "second")
    assert file.read_text() == "first\n"


def test_a_power_loss_takes_neither_the_content_nor_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, bool]] = []  # which file or folder, and whether the file was in place

    def fsync(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, (tmp_path / "new" / "file").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_bytes(tmp_path / "new" / "file", b"content")
    content, name = (path.stat().st_ino for path in (tmp_path / "new" / "file", tmp_path / "new"))
    assert synced == [(content, False), (name, True)]


def test_what_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file/below cannot be written: Not a directory"):
        write_bytes(tmp_path / "file" / "below", b"")


def test_the_baseline_goes_on_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, words = tmp_path / "run", [*WORDS, "--baseline", "supervised"]
    with Disk(full, NEVER).inserted() as disk:
        assert cli.main(["train", "--out", str(tmp_path / "whole"), *words]) == 0
    last = max(i for i, name in enumerate(disk.writes) if "state.pt" in name)
    with Disk(full, last).inserted():
        assert cli.main(["train", "--out", str(run), *words]) == 3
    assert f"`tamatch resume {run}` continues" in capsys.readouterr().err
    assert tamatch.resume(run, quiet=True).result["steps"] == 12
    for part in (".", "baseline"):
        assert fingerprint(run / part) == fingerprint(tmp_path / "whole" / part)
