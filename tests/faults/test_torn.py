"""Damaged checkpoints: every torn or changed byte is noticed, and the one before is used."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tamatch
from tamatch.storage import checkpoint
from tests.faults.runs import DOZEN, crash_at
from tests.processes import fingerprint

TRIES = 100


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that died before its tenth step, with the checkpoints of the fourth and the eighth."""
    return crash_at(9, monkeypatch, tmp_path / "run")


def damages(file: Path, kind: str) -> Iterator[bytes]:
    """A hundred ways in which this file may have come to harm."""
    whole, choose = file.read_bytes(), random.Random(kind)
    for _ in range(TRIES):
        place = choose.randrange(len(whole))
        if kind == "torn":
            yield whole[:place]
        else:
            yield (
                whole[:place]
                + bytes([whole[place] ^ 1 << choose.randrange(8)])
                + whole[place + 1 :]
            )


@pytest.mark.parametrize("kind", ["torn", "flipped"])
def test_a_damaged_checkpoint_is_never_used(run: Path, kind: str, record_property: Any) -> None:
    older, newest = checkpoint.saved_in(run / "checkpoints")
    file = newest / "state.pt"
    for damaged in damages(file, kind):
        file.write_bytes(damaged)
        state, (message,) = checkpoint.newest(run / "checkpoints")
        assert state is not None and state["engine"]["step"] == 4
        assert f"{newest} is damaged" in message and f"{older} is used instead" in message
    record_property("tries", TRIES)


@pytest.mark.parametrize("files", [["state.pt"], ["manifest.json"], ["state.pt", "manifest.json"]])
def test_a_run_with_a_torn_checkpoint_ends_the_same(
    run: Path, tmp_path: Path, files: list[str]
) -> None:
    for name in files:
        file = checkpoint.saved_in(run / "checkpoints")[-1] / name
        file.write_bytes(file.read_bytes()[:-7])
    tamatch.resume(run, quiet=True)
    assert "step_00000004 is used instead" in (run / "log.txt").read_text()
    tamatch.train(out=tmp_path / "whole", quiet=True, **DOZEN)
    assert fingerprint(run) == fingerprint(tmp_path / "whole")


def test_with_no_sound_checkpoint_it_begins_anew(run: Path, tmp_path: Path) -> None:
    for path in checkpoint.saved_in(run / "checkpoints"):
        (path / "state.pt").write_bytes(b"")
    tamatch.resume(run, quiet=True)
    assert (run / "log.txt").read_text().count("The run starts over.") == 2
    tamatch.train(out=tmp_path / "whole", quiet=True, **DOZEN)
    assert fingerprint(run) == fingerprint(tmp_path / "whole")
