"""The results folder: whole files, true names."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tamatch.bench import store as module
from tamatch.bench.cells import PLANS
from tamatch.bench.record import Curve, commit, source_digest
from tamatch.bench.store import Store
from tamatch.errors import DataError, StorageError
from tests.bench.made import result

CELLS = PLANS["digits"].cells("digits")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store, cell = Store(tmp_path), CELLS[3]
    assert not store.has(cell)
    store.write(cell, result(cell))
    assert store.read(cell) == result(cell)
    assert store.found(CELLS) == {cell: result(cell)}
    assert [p.name for p in tmp_path.rglob("*.json")] == ["mean_teacher.s0.full.r1.json"]
    assert store.path(cell).stat().st_size < 4096


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, cell = Store(tmp_path), CELLS[0]
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write(cell, result(cell, math.nan))

    def full_disk(handle: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("tamatch.files.os.fsync", full_disk)
    with pytest.raises(StorageError, match="no space"):
        store.write(cell, result(cell))
    assert not list(tmp_path.rglob("*.*"))


def test_a_renamed_or_damaged_file_is_refused(tmp_path: Path) -> None:
    store, (one, other, *_) = Store(tmp_path), CELLS
    store.write(one, result(one))
    store.path(one).rename(store.path(other))
    with pytest.raises(DataError, match="another run"):
        store.read(other)
    store.path(other).write_text("{}")
    with pytest.raises(DataError, match="damaged"):
        store.read(other)


def test_another_recipe_version_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, cell = Store(tmp_path), CELLS[0]
    store.write(cell, result(cell))
    monkeypatch.setattr("tamatch.bench.cells.RECIPE", 2)
    assert not store.has(cell)
    monkeypatch.undo()
    monkeypatch.setattr(module, "RECIPE", 2)
    with pytest.raises(DataError, match="another run"):
        store.read(cell)


def test_curves_are_thinned_but_keep_their_ends() -> None:
    curve = Curve.of([(i, i / 3) for i in range(1000)], 64)
    assert len(curve.step) == 64 and (curve.step[0], curve.step[-1]) == (0, 999)
    gaps = {b - a for a, b in zip(curve.step, curve.step[1:], strict=False)}
    assert gaps <= {15, 16}
    assert Curve.of([(1, math.inf), (2, 0.1234567)]) == Curve([2], [0.123457])
    assert Curve.of([]) == Curve([], [])


def test_the_code_is_named() -> None:
    assert len(source_digest()) == 64 and source_digest() == source_digest()
    found = commit()
    assert found is None or len(found.rstrip("+")) == 40


def test_a_copy_without_history_is_told_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamatch.bench.record.git", lambda *words: None)
    assert commit() is None
    monkeypatch.setenv("TAMATCH_COMMIT", "abc123")
    assert commit() == "abc123"
