from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tamatch.errors import DataError, StorageError
from tamatch.storage import checkpoint
from tamatch.storage.folder import RunFolder

STATE = {"weights": torch.arange(200.0), "step": 7, "nested": {"list": [1, 2]}}


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 7, STATE)
    state, messages = checkpoint.newest(tmp_path)
    assert state is not None and not messages
    assert torch.equal(state["weights"], STATE["weights"])  # type: ignore[arg-type]
    assert state["nested"] == STATE["nested"]


def test_only_the_last_two_stay(tmp_path: Path) -> None:
    for step in (5, 10, 99_999_999, 100_000_000):
        checkpoint.save(tmp_path, step, {"step": step})
    assert [p.name for p in checkpoint.saved_in(tmp_path)] == ["step_99999999", "step_100000000"]


def test_a_run_that_starts_over_keeps_what_it_saves(tmp_path: Path) -> None:
    """The damaged checkpoints have higher steps, but are not newer."""
    for step in (8, 12):
        (checkpoint.save(tmp_path, step, STATE) / "state.pt").write_bytes(b"damaged")
    assert checkpoint.newest(tmp_path)[0] is None
    for step in (4, 8):
        checkpoint.save(tmp_path, step, {"step": step})
        assert checkpoint.newest(tmp_path) == ({"step": step}, [])
    assert [p.name for p in checkpoint.saved_in(tmp_path)] == ["step_00000004", "step_00000008"]


@pytest.mark.parametrize("file", ["state.pt", "manifest.json"])
def test_every_torn_or_changed_byte_is_noticed(tmp_path: Path, file: str) -> None:
    checkpoint.save(tmp_path, 1, {"step": 1})
    newest = checkpoint.save(tmp_path, 2, STATE) / file
    whole = newest.read_bytes()
    choose = random.Random(0)
    for offset in choose.sample(range(len(whole)), min(60, len(whole))):
        flipped = bytearray(whole)
        flipped[offset] ^= 1 << choose.randrange(8)
        for damaged in (whole[:offset], bytes(flipped)):
            newest.write_bytes(damaged)
            state, messages = checkpoint.newest(tmp_path)
            if state is not None and state["step"] == 7:  # only the unread fields may differ
                assert file == "manifest.json"
                continue
            assert state == {"step": 1}
            assert "step_00000002" in messages[0] and "damaged" in messages[0]
            assert "step_00000001 is used instead" in messages[0]


def test_nothing_is_named_before_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power loss may undo whatever was not yet told to reach the disk, in any order."""
    done: list[tuple[str, int]] = []  # what happened to which file or folder

    def sync(handle: int) -> None:
        done.append(("synced", os.fstat(handle).st_ino))

    def noted(move: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
        def noting(path: Path, target: Path) -> Path:
            done.append(("named", path.stat().st_ino))
            return move(path, target)

        return noting

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", noted(Path.rename))
    monkeypatch.setattr(Path, "replace", noted(Path.replace))
    final = checkpoint.save(tmp_path / "checkpoints", 7, STATE)
    folder, home = (path.stat().st_ino for path in (final, final.parent))
    for file in ("state.pt", "manifest.json"):
        number = (final / file).stat().st_ino
        assert done.index(("synced", number)) < done.index(("named", number))
        assert ("synced", folder) in done[done.index(("named", number)) :]
    assert done.index(("synced", folder)) < done.index(("named", folder))
    assert done[-1] == ("synced", home)


def test_the_metrics_that_a_checkpoint_counts_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, synced = RunFolder(tmp_path), []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    folder.append({"step": 1})
    assert folder.mark()["bytes"] == folder.metrics.stat().st_size
    assert synced == [folder.metrics.stat().st_ino]


def test_a_half_built_checkpoint_is_not_seen(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, {"step": 1})
    (tmp_path / ".step_00000002.123.tmp").mkdir()
    (tmp_path / ".step_00000002.123.tmp" / "state.pt").write_bytes(b"half")
    assert checkpoint.newest(tmp_path)[0] == {"step": 1}


def test_a_failed_save_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, 1, {"step": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_json", full)
    with pytest.raises(StorageError, match="step_00000002 cannot be written: No space left"):
        checkpoint.save(tmp_path, 2, STATE)
    assert [p.name for p in tmp_path.iterdir()] == ["step_00000001"]


def test_a_pickle_in_a_checkpoint_runs_nothing(tmp_path: Path) -> None:
    import hashlib
    import json
    import pickle

    class Evil:
        def __reduce__(self) -> object:
            return (Path.touch, (tmp_path / "executed",))

    folder = tmp_path / "step_00000001"
    folder.mkdir()
    content = pickle.dumps(Evil())
    (folder / "state.pt").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(json.dumps({"sha256": digest}))
    with pytest.raises(DataError):
        checkpoint.load(folder)
    assert not (tmp_path / "executed").exists()
