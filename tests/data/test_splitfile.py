"""split.csv: exact both ways, safe in a spreadsheet, and honest about changes."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamatch.data import DataSet, SplitPlan, load, make_split, read_split, write_split
from tamatch.data.arrays import from_arrays
from tamatch.data.splitfile import listed_in, still_there
from tamatch.errors import DataError
from tamatch.storage.spreadsheet import neutralise, read_rows, restore, write_table


@pytest.fixture
def data() -> DataSet:
    images = np.random.RandomState(0).randint(0, 256, (40, 8, 8, 3)).astype(np.uint8)
    labels = np.arange(40) % 4 - 1
    made = from_arrays(images, labels, images[:6] // 2, np.arange(6) % 3)
    names = [f"=cmd('{i}')\n<b>,{i}" for i in range(46)]
    return replace(made, files=names, classes=("@home", "'quoted", "plain"))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("in_pool", [True, False])
def test_reads_back_what_was_written(in_pool: bool, data: DataSet, tmp_path: Path) -> None:
    plan = SplitPlan(labels_per_class=5, validation_per_class=1, labelled_in_pool=in_pool)
    split = make_split(data, plan)
    path = tmp_path / "split.csv"
    write_split(path, data, split)
    again = read_split(path, data)
    for role in ("labelled", "unlabelled", "validation", "test"):
        assert getattr(again, role).tolist() == getattr(split, role).tolist()
    assert len(rows(path)) == sum(len(getattr(split, r)) for r in vars(split))


def test_columns_and_an_image_in_two_roles(data: DataSet, tmp_path: Path) -> None:
    path = tmp_path / "split.csv"
    write_split(path, data, make_split(data, SplitPlan()))
    found = rows(path)
    assert list(found[0]) == ["image", "hash", "role", "label"]
    twice = [row for row in found if row["image"] == found[0]["image"]]
    assert [row["role"] for row in twice] == ["labelled", "unlabelled"]
    assert len({row["hash"] for row in twice}) == 1
    labels = {row["label"] for row in found}
    assert labels == {"", "'@home", "''quoted", "plain"}


def test_no_cell_is_a_formula(data: DataSet, tmp_path: Path) -> None:
    path = tmp_path / "split.csv"
    write_split(path, data, make_split(data, SplitPlan()))
    assert not any(cell[:1] in "=+-@" and cell for row in rows(path) for cell in row.values())


@given(st.text() | st.sampled_from("=+-@\t\r").map(lambda first: first + "1"))
def test_neutralising_is_exact(cell: str) -> None:
    assert restore(neutralise(cell)) == cell
    assert not neutralise(cell).startswith(("=", "+", "-", "@", "\t", "\r"))


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, cells = tmp_path / "t.csv", [("-x.jpg", "a,b\r\n"), ("'=1", "")]
    write_table(path, ("file", "reason"), cells)
    assert [tuple(row.values()) for row in read_rows(path, "file", "reason")] == cells
    assert [row["file"] for row in read_rows(path, "file")] == ["-x.jpg", "'=1"]


def test_a_row_that_ends_early_has_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("file,reason\nx.jpg\n")
    assert [*read_rows(path, "file", "reason")] == [{"file": "x.jpg", "reason": ""}]


@pytest.mark.parametrize("cell", ["'tis", "plain", "'", "x-ray", "a=b", ""])
def test_cells_of_others_stay_as_they_are(cell: str) -> None:
    assert restore(cell) == cell


def test_a_changed_or_missing_image_is_refused(data: DataSet, tmp_path: Path) -> None:
    path = tmp_path / "split.csv"
    write_split(path, data, make_split(data, SplitPlan()))
    images = data.images.copy()
    images[5, 0, 0, 0] ^= 1
    with pytest.raises(DataError, match="has changed since"):
        read_split(path, replace(data, images=images))
    with pytest.raises(DataError, match="is no longer in"):
        read_split(path, replace(data, files=[f"other {name}" for name in data.files]))


def test_what_is_still_there_of_a_role(data: DataSet, tmp_path: Path) -> None:
    path = tmp_path / "split.csv"
    split = make_split(data, SplitPlan(validation_per_class=2))
    write_split(path, data, split)
    changed, renamed, unlabelled, kept = (split.validation[i] for i in (0, 1, 2, 3))
    images, labels, files = data.images.copy(), data.labels.copy(), [*data.files]
    images[changed] ^= 1
    labels[unlabelled] = -1
    files[renamed] = "other"
    now = replace(data, images=images, labels=labels, files=files)
    found, listed = still_there(path, now, "validation")
    assert found.tolist() == [kept, *split.validation[4:]] and listed == 6
    assert still_there(path, data, "test")[0].tolist() == split.test.tolist()
    names = listed_in(path, "image")
    assert names["validation"] == {data.files[i] for i in split.validation}


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\xff\xfe", b"image,hash\nx\n"])
def test_what_is_no_split_file(content: bytes, data: DataSet, tmp_path: Path) -> None:
    path = tmp_path / "split.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"split.csv is not a table of a run: "):
        read_split(path, data)
    with pytest.raises(DataError, match=r"none.csv is not a table of a run: No such file"):
        read_split(tmp_path / "none.csv", data)


def test_digits_round_trip(tmp_path: Path) -> None:
    data = load("digits")
    split = make_split(data, SplitPlan(labels_per_class=4))
    write_split(tmp_path / "split.csv", data, split)
    assert read_split(tmp_path / "split.csv", data).unlabelled.tolist() == split.unlabelled.tolist()
