"""labels.csv: whole after every action, whatever happens to the process."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamatch.data import load
from tamatch.errors import DataError, StorageError, UsageError
from tamatch.review.store import COLUMNS, SKIPPED, LabelFile, opened
from tamatch.storage.spreadsheet import table_bytes
from tests.data.pictures import put


def read(path: Path) -> list[tuple[str, ...]]:
    with path.open(newline="") as file:
        return [tuple(row) for row in csv.reader(file)][1:]


def test_every_action_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    store = LabelFile(path)
    assert not path.exists()
    store.set({"a.png": "cat"})
    assert path.read_text() == "file_name,label,drawn\na.png,cat,no\n"
    store.set({"b.png": SKIPPED})
    store.set({"a.png": "dog"})
    assert read(path) == [("b.png", "", "no"), ("a.png", "dog", "no")]
    assert store.undo() == {"a.png": "cat"}
    assert set(read(path)) == {("b.png", "", "no"), ("a.png", "cat", "no")}
    assert store.undo() == {"b.png": None} and store.undo() == {"a.png": None}
    assert read(path) == [] and store.undo() is None


def test_a_new_process_goes_on_and_can_undo(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    first = LabelFile(path)
    for name, label in (("a.png", "cat"), ("b.png", SKIPPED), ("c.png", "dog")):
        first.set({name: label})
    again = LabelFile(path)
    assert again.labels == first.labels
    assert again.undo() == {"c.png": None}
    assert read(path) == [("a.png", "cat", "no"), ("b.png", "", "no")]


def test_what_is_a_fair_sample_lasts(tmp_path: Path) -> None:
    """Labels of others say nothing of it, however they are changed; an undone one is forgotten."""
    path = tmp_path / "labels.csv"
    path.write_text("file_name,label\nold.png,cat\n")
    store = LabelFile(path)
    store.set({"lot.png": "cat"}, {"lot.png"})
    store.set({"lot.png": "dog", "old.png": "dog", "easy.png": "dog"})
    said = [("lot.png", "dog", "yes"), ("old.png", "dog", ""), ("easy.png", "dog", "no")]
    assert read(path) == said
    assert LabelFile(path).drawn == store.drawn == {"lot.png": True, "easy.png": False}
    assert store.undo() and store.undo() and not store.drawn
    assert read(path) == [("old.png", "cat", "")]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "=y", "", None])), max_size=12)
)
def test_undo_takes_back_step_by_step(actions: list[tuple[str, str | None]]) -> None:
    """Against the obvious: a list of all states."""
    with tempfile.TemporaryDirectory() as folder:
        store = LabelFile(Path(folder) / "labels.csv")
        states: list[dict[str, str]] = [{}]
        for name, label in actions:
            if label is None:
                store.undo()
                states = states[:-1] or [{}]
            else:
                store.set({name: label})
                states.append({**states[-1], name: label})
            assert store.labels == states[-1]
            assert not store.path.exists() or LabelFile(store.path).labels == states[-1]


def test_cells_that_compute_are_neutralised(tmp_path: Path) -> None:
    store = LabelFile(tmp_path / "labels.csv")
    store.set({"=cmd.png": '@"x",\n'})
    assert store.path.read_text().splitlines()[1].startswith("'=cmd.png,\"'@")


def test_a_file_that_another_program_changed_is_left_alone(tmp_path: Path) -> None:
    store = LabelFile(tmp_path / "labels.csv")
    store.set({"a.png": "cat"})
    store.path.write_text("file_name,label\na.png,dog\n")
    with pytest.raises(DataError, match="was changed by another program"):
        store.set({"b.png": "cat"})
    assert store.path.read_text() == "file_name,label\na.png,dog\n"
    assert store.labels == {"a.png": "cat"}


def test_what_cannot_be_written_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LabelFile(tmp_path / "labels.csv")
    store.set({"a.png": "cat"})

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            store.set({"b.png": "dog"})
        with pytest.raises(StorageError):
            store.undo()
    assert read(store.path) == [("a.png", "cat", "no")]
    assert store.labels == {"a.png": "cat"} and len(store.history) == 1
    store.set({"b.png": "dog"})
    assert len(read(store.path)) == 2


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    for i, name in enumerate(("cat/a.png", "dog/b.png", "unlabelled/c.png")):
        put(tmp_path / "photos" / name, 50 * i)
    return tmp_path / "photos"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("file_name,label\nunlabelled/x.png,cat\n", "line 2: photos has no image"),
        ("file_name,label\nunlabelled/c.png,cow\n", '"cow" is not a class'),
        ("file_name,label,confidence\nunlabelled/c.png,cat,0.9\n", "columns that would be lost"),
        ("once upon a time", "needs the columns file_name and label"),
    ],
)
def test_a_file_of_another_kind_is_not_touched(photos: Path, content: str, told: str) -> None:
    path = photos.parent / "labels.csv"
    path.write_text(content)
    with (
        pytest.raises((DataError, UsageError), match=told),
        opened(path, load(photos), photos),
    ):
        pass
    assert path.read_text() == content


def test_the_labels_of_another_project_are_told_how_to_leave(photos: Path) -> None:
    path = photos.parent / "labels.csv"
    path.write_text("file_name,label\nunlabelled/other.png,cat\n")
    told = "If .*labels.csv is for other images, give a new file with --labels"
    with pytest.raises(DataError, match=told), opened(path, load(photos), photos):
        pass


def test_names_of_other_programs_are_those_of_the_images(photos: Path) -> None:
    path = photos.parent / "labels.csv"
    path.write_text(f"file_name,label\nunlabelled\\c.png,cat\n{photos}/dog/b.png,unlabelled\n")
    with opened(path, load(photos), photos) as store:
        assert store.labels == {"unlabelled/c.png": "cat", "dog/b.png": ""}


def test_one_process_at_a_time_and_not_in_the_data_folder(photos: Path) -> None:
    data, path = load(photos), photos.parent / "labels.csv"
    with (
        opened(path, data, photos),
        pytest.raises(UsageError, match=r"labels.csv is in use by process"),
        opened(path, data, photos),
    ):
        pass
    with (
        pytest.raises(UsageError, match=r"replaces the class folders. Give one elsewhere, such as"),
        opened(photos / "labels.csv", data, photos),
    ):
        pass
    with pytest.raises(UsageError, match="is a folder"), opened(photos, data, photos):
        pass


WRITER = """
import sys
from pathlib import Path
from tamatch.review.store import LabelFile

store = LabelFile(Path(sys.argv[1]))
for i in range(len(store.labels), 100_000):
    store.set({f"{i}.png": str(i % 7)})
    print(i, flush=True)
"""


def killed_while_writing(path: Path, after: float) -> int:
    """Label as fast as it goes, kill -9, and return how many labels had been confirmed."""
    words = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        confirmed = int(process.stdout.readline()) + 1
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")[:-1]  # the last line may be torn
    return int(rest[-1]) + 1 if rest else confirmed


def test_kill_9_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    for attempt in range(6):
        confirmed = killed_while_writing(path, 0.03 + 0.017 * attempt)
        there = [(f"{i}.png", str(i % 7), "no") for i in range(len(read(path)))]
        assert path.read_bytes() == table_bytes(COLUMNS, there)
        assert confirmed <= len(there) <= confirmed + 1  # one may be written, not yet confirmed
