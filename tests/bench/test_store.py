"""The results folder: whole files, true names."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest

from tamatch.bench import results as module
from tamatch.bench.plans import PLANS
from tamatch.bench.results import (
    Curve,
    Result,
    Store,
    Vectors,
    commit,
    course,
    source_digest,
)
from tamatch.errors import DataError, StorageError
from tamatch.storage.files import read_json
from tamatch.storage.typed import typed
from tests.bench.made import result

CELLS = PLANS["digits"].cells("digits")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store, cell = Store(tmp_path), CELLS[3]
    assert not store.has(cell)
    store.write(cell, result(cell))
    assert store.read(cell) == result(cell)
    assert store.results(CELLS) == {cell: result(cell)}
    assert [p.name for p in tmp_path.rglob("*.json")] == ["mean_teacher.s0.full.r1.json"]
    assert store.path(cell).stat().st_size < 4096


def test_a_file_is_read_once_and_again_when_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    monkeypatch.setattr(module, "read_json", lambda path: reads.append(path) or read_json(path))
    store, cell = Store(tmp_path), CELLS[0]
    store.write(cell, result(cell, 20.0))
    assert store.read(cell) is store.read(cell)
    Store(tmp_path).write(cell, result(cell, 21.0))  # as another process would
    assert store.read(cell).error_last == 21.0
    assert reads == [store.path(cell)] * 2


def test_a_variant_is_another_run_than_its_method(tmp_path: Path) -> None:
    store, cells = Store(tmp_path), PLANS["causes"].cells("causes", (0,))
    plain, other = cells[0], cells[2]
    assert other.variant and other.method == plain.method
    store.write(other, result(other))
    assert store.results(cells) == {other: result(other)}
    store.path(other).rename(store.path(plain))
    with pytest.raises(DataError, match="another run"):
        store.read(plain)


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, cell = Store(tmp_path), CELLS[0]
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.write(cell, result(cell, math.nan))

    def full_disk(handle: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("tamatch.storage.files.os.fsync", full_disk)
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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("error_last", "bad"), ("seed", None), ("classes", "abcd"), ("classes", [1]), ("made", []),
        ("error", 3), ("error", {"step": [1]}), ("error", {"step": [1], "value": ["x"]}),
        ("per_class", {"step": [1], "value": [1.0]}),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_damage(tmp_path: Path, field: str, value: object) -> None:
    store, cell = Store(tmp_path), CELLS[0]
    store.write(cell, result(cell))
    path = store.path(cell)
    path.write_text(json.dumps({**read_json(path), field: value}))
    with pytest.raises(DataError, match=rf"{path} is damaged. Delete it"):
        store.read(cell)
    path.write_text("[]")
    with pytest.raises(DataError, match=rf"{path} is damaged. Delete it"):
        store.read(cell)


@pytest.mark.parametrize("place", ["result", "curve"])
def test_a_newer_file_is_not_called_damaged(tmp_path: Path, place: str) -> None:
    store, cell = Store(tmp_path), CELLS[0]
    store.write(cell, result(cell))
    content = read_json(store.path(cell))
    (content if place == "result" else content["error"])["watts"] = 5
    store.path(cell).write_text(json.dumps(content))
    with pytest.raises(DataError) as error:
        store.read(cell)
    assert str(error.value) == (
        f"{store.path(cell)} was written by a newer version of tamatch: this one does not know "
        "watts. Update tamatch to read it."
    )


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


def test_vectors_are_thinned_by_the_number_of_classes() -> None:
    ten, hundred = (
        Vectors.of([(i, [i / 3] * classes) for i in range(1000)], classes, 2)
        for classes in (10, 100)
    )
    assert (len(ten.step), len(hundred.step)) == (64, 12)
    assert (hundred.step[0], hundred.step[-1], hundred.value[-1][:2]) == (0, 999, [333.0, 333.0])
    assert Vectors.of([(1, [None, 50.127])], 2, 2) == Vectors([1], [[None, 50.13]])


def test_the_course_of_a_run() -> None:
    """r_max = 1 + C·KL/H by hand: p_model (¾, ¼) against the uniform target."""
    train = {"step": 5, "kind": "train", "p_model": [0.75, 0.25], "p_target": [0.5, 0.5]}
    rows = [
        {**train, "weight": 1.25, "max_weight": 2.0},
        {"step": 5, "kind": "test", "error": 50.0, "per_class": [100.0, 0.0]},
    ]
    found = course(rows, 2)
    kl = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    entropy = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert found["kl_target"].value == [pytest.approx(kl, abs=1e-6)]
    assert found["r_max"].value == [pytest.approx(1 + 2 * kl / entropy, abs=1e-6)]
    assert found["largest_ratio"].value == [pytest.approx(2, abs=1e-5)]
    assert course(rows, 2, eps=0.25)["largest_ratio"].value == [1.5]
    assert found["weight"] == Curve([5], [1.25])
    assert found["per_class"] == Vectors([5], [[100.0, 0.0]])
    assert course([{"step": 1, "kind": "train", "total": 2.0}], 2) == {}  # of supervised learning


def test_the_results_of_the_repository_can_be_read() -> None:
    """Every file, also those of before the newest fields; all of them small."""
    folder = Path(__file__).parents[2] / "results"
    for path in folder.glob("*/*.r[0-9]*.json"):
        found: Result = typed(read_json(path), Result, closed=True)
        made = found.method if found.variant is None else f"{found.method}+{found.variant}"
        assert path.relative_to(folder).as_posix().startswith(f"{found.setting}/{made}.")
        assert found.made["commit"]  # so that every number of the report can be traced
        assert path.stat().st_size < 100_000


def test_a_long_run_of_many_classes_is_a_small_file(tmp_path: Path) -> None:
    shares = [0.0123456789] * 100
    rows = [
        {"step": i, "kind": "train", "p_model": shares, "p_target": shares, "weight": 1.2345678}
        for i in range(400)
    ]
    rows += [{"step": i, "kind": "test", "per_class": [51.23] * 100} for i in range(400)]
    store, cell = Store(tmp_path), CELLS[0]
    store.write(cell, result(cell, **course(rows, 100)))
    assert store.path(cell).stat().st_size < 60_000
    assert store.read(cell) == result(cell, **course(rows, 100))


def test_the_code_is_named() -> None:
    assert len(source_digest()) == 64 and source_digest() == source_digest()
    found = commit()
    assert found is None or len(found.rstrip("+")) == 40


def test_a_copy_is_no_part_of_the_repository_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "ignored" / "tamatch"
    copy.mkdir(parents=True)
    (copy / "__init__.py").touch()
    (tmp_path / ".gitignore").write_text("ignored\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    monkeypatch.setattr("tamatch.bench.results.PACKAGE", copy)
    monkeypatch.delenv("TAMATCH_COMMIT", raising=False)
    assert commit() is None


def test_a_copy_without_history_is_told_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tamatch.bench.results.git", lambda *words: None)
    assert commit() is None
    monkeypatch.setenv("TAMATCH_COMMIT", "abc123")
    assert commit() == "abc123"
