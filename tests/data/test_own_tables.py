"""Tables of labels in a person's own folder: what they say of images, parts and paths."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from tamatch.data import load
from tamatch.data.layout import BELONG
from tamatch.errors import DataError
from tests.data.pictures import put

POOLED = "images that the table of labels does not list, used without a label"
LEFT_OUT = (
    "images that the table of labels does not list, left out (to use them, list them; a label may "
    "be empty)"
)


@pytest.mark.parametrize("table", ["labels.csv", "metadata.csv"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_table_of_labels(table: str, separator: str, tmp_path: Path) -> None:
    for i in range(4):
        put(tmp_path / "pics" / f"{i}.png", i)
    rows = ["label,file_name,note", "cat,pics/0.png,x", ",pics/1.png,", "dog,pics/2.png,y"]
    text = "\n".join([*rows, "cat,pics/gone.png,", "cat,../../etc/passwd,"])
    (tmp_path / table).write_text("\ufeff" + text.replace(",", separator), encoding="utf-8")
    for place, more, told in (
        (tmp_path, ["pics/3.png"], f"{POOLED}: 1"),
        (tmp_path / table, [], f"{LEFT_OUT}: 1"),  # who names the table wants what it lists
    ):
        data = load(place)
        assert data.classes == ("cat", "dog")
        assert data.files == ["pics/0.png", "pics/1.png", "pics/2.png", *more]
        assert data.labels.tolist() == [0, -1, 1, *[-1] * len(more)]
        assert dict(data.skipped) == {
            "../../etc/passwd": f"outside {tmp_path}",
            "pics/gone.png": f"listed in {table} but not found",
        }
        assert data.notes == (told,)


def competition(place: Path, table: str, *more: str) -> Path:
    """Images in flat folders, and one table for all of them."""
    for name in ("train/1", "train/2", "train/3", "test/1", "test/2", "val/1", *more):
        put(place / f"{name}.png")
    (place / "labels.csv").write_text(f"file_name,label\n{table}")
    return place


def in_parts(place: Path) -> list[list[str]]:
    data = load(place)
    return [[data.files[i] for i in part] for part in data.parts]


def test_one_table_for_all_parts(tmp_path: Path) -> None:
    rows = "train/1.png,cat\ntrain/2.png,dog\ntest/1.png,dog\nval/1.png,cat\nother/1.png,cat\n"
    place = competition(tmp_path, rows, "unlabelled/1", "other/1", "other/2", "loose")
    listed = [["other/1.png", "train/1.png", "train/2.png"], [], ["val/1.png"], ["test/1.png"]]
    pool = ["loose.png", "other/2.png", "train/3.png", "unlabelled/1.png"]
    assert [sorted(part) for part in in_parts(place)] == [listed[0], pool, *listed[2:]]
    assert load(place).notes == (
        f"{POOLED}: 4",
        f"{LEFT_OUT}: 1",  # in test
    )
    alone = place / "labels.csv"
    assert [sorted(part) for part in in_parts(alone)] == listed
    assert load(alone).notes == (f"{LEFT_OUT}: 5",)


def test_rows_of_a_test_part_without_a_label_are_not_learnt_from(tmp_path: Path) -> None:
    place = competition(tmp_path, "train/1.png,cat\ntrain/2.png,\ntest/1.png,\ntest/2.png,dog\n")
    assert in_parts(place) == [["train/1.png"], ["train/2.png", "train/3.png"], [], ["test/2.png"]]
    assert load(place).skipped == (
        ("test/1.png", "without a label it is of no use in the test part"),
    )


def test_a_part_that_the_table_does_not_name_is_read_for_itself(tmp_path: Path) -> None:
    """`tamatch label` writes such tables: of all images but those of the test part."""
    rows = "train/1.png,cat\ntrain/2.png,dog\nunlabelled/1.png,dog\n"
    place = competition(tmp_path, rows, "unlabelled/1", "test/cat/3", "test/dog/4")
    assert in_parts(place) == [
        ["train/1.png", "train/2.png", "unlabelled/1.png"],
        ["train/3.png"],
        [],
        ["test/cat/3.png", "test/dog/4.png"],
    ]
    told = f"images outside any class folder, left out ({BELONG}): 3"
    assert told in load(place).notes  # in test and val


def test_a_row_about_a_file_that_is_no_image_is_told(tmp_path: Path) -> None:
    place = competition(tmp_path, "train/1.png,cat\ntrain/notes.txt,dog\n")
    (place / "train" / "notes.txt").write_text("nothing to see")
    assert load(place).skipped == (("train/notes.txt", "not an image by its file name"),)


def test_a_folder_named_like_a_label_of_the_table_is_no_part(tmp_path: Path) -> None:
    place = competition(tmp_path, "valid/1.png,Valid\nvalid/2.png,no\n", "valid/1", "valid/2")
    assert in_parts(place)[0] == ["valid/1.png", "valid/2.png"]


def test_a_table_that_lists_nothing_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("file_name,label\n1.png,cat\n")
    told = r"no image listed in .*labels\.csv was found\. .* \(/"
    with pytest.raises(DataError, match=told):
        load(tmp_path)
    put(tmp_path / "2.png")  # which would be used without a label
    with pytest.raises(DataError, match=told):
        load(tmp_path)


def test_an_image_that_its_part_does_not_list_has_no_label(tmp_path: Path) -> None:
    for part in ("train", "test"):
        put(tmp_path / part / "0.png")
        put(tmp_path / part / "1.png")
        (tmp_path / part / "metadata.csv").write_text("file_name,label\n0.png,a\n")
    assert in_parts(tmp_path) == [["train/0.png"], ["train/1.png"], [], ["test/0.png"]]


@pytest.mark.parametrize("label", ["unlabelled", "Unlabeled", "nan", "None", "null"])
def test_labels_that_say_there_is_none(label: str, tmp_path: Path) -> None:
    put(tmp_path / "1.png")
    put(tmp_path / "2.png")
    (tmp_path / "labels.csv").write_text(f"file_name,label\n1.png,none\n2.png,{label}\n")
    data = load(tmp_path)
    assert data.classes == ("none",) and data.labels.tolist() == [0, -1]
    told = (f'images with the label "{label}", treated as unlabelled: 1',)
    assert data.notes == (() if label.lower().startswith("un") else told)


def test_the_column_split_tells_the_part(tmp_path: Path) -> None:
    place = competition(tmp_path, "")
    (place / "labels.csv").write_text(
        "file_name,label,Split\ntrain/1.png,cat,\ntrain/2.png,cat,Test\ntest/1.png,dog,train\n"
        "val/1.png,dog,unlabelled\ntrain/3.png,unlabelled,test\ntest/2.png,dog,valid\n"
    )
    assert in_parts(place) == [
        ["train/1.png", "test/1.png"], ["val/1.png"], ["test/2.png"], ["train/2.png"],
    ]  # fmt: skip
    assert load(place).skipped == (
        ("train/3.png", "without a label it is of no use in the test part"),
    )


def test_absolute_paths_and_those_of_windows_are_found(tmp_path: Path) -> None:
    place = tmp_path / "real"
    for name in ("a/1.png", "a/2.png", "a/3.png", "b\\4.png"):
        put(place / name)
    (tmp_path / "link").symlink_to(place)
    (place / "labels.csv").write_text(
        f"file_name,label\na\\1.png,x\n{place}/a/../a/2.png,x\n{tmp_path}/link/a/3.png,y\n"
        f"b\\4.png,y\n{tmp_path}/5.png,y\n"
    )
    data = load(tmp_path / "link")
    assert data.files == ["a/1.png", "a/2.png", "a/3.png", "b\\4.png"]
    assert data.skipped == ((f"{tmp_path}/5.png", f"outside {tmp_path}/link"),)


def test_an_umlaut_may_be_stored_as_one_character_or_two(tmp_path: Path) -> None:
    one, two = (unicodedata.normalize(form, "größe") for form in ("NFC", "NFD"))
    for name in (f"{two}/1.png", "2.png", f"test/{two}/3.png", f"test/{one}/4.png", "test/x/5.png"):
        put(tmp_path / name)
    table = tmp_path / "labels.csv"
    table.write_text(f"file_name,label\n{one}/1.png,{two}\n2.png,x\n", encoding="utf-8")
    data = load(tmp_path)
    assert data.skipped == () and data.classes == (one, "x")
    assert dict(zip(data.files, data.labels.tolist(), strict=True)) == {
        f"{two}/1.png": 0, "2.png": 1, f"test/{two}/3.png": 0, f"test/{one}/4.png": 0,
        "test/x/5.png": 1,
    }  # fmt: skip


def test_table_in_each_part(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for i in range(2):
            put(tmp_path / part / f"{i}.png", i)
        (tmp_path / part / "metadata.csv").write_text("file_name,label\n0.png,a\n1.png,b\n")
    data = load(tmp_path)
    assert [len(part) for part in data.parts] == [2, 0, 0, 2]
    assert data.files == ["test/0.png", "test/1.png", "train/0.png", "train/1.png"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"name,class\nx.png,a\n", "needs the columns file_name and label"),
        (b"", "needs the columns"),
        (b"file_name,label\nx.png,a\nx.png,b\n", 'lines 2 and 3: x.png is listed as "a" and'),
        (b"file_name,label\nx.png,a\n./x.png,b\n", 'lines 2 and 3: x.png is listed as "a" and'),
        (b"file_name,label,split\nx.png,a,val\nx.png,a,test\n", '"validation" and as "test"'),
        (b"file_name,label,split\nx.png,a,holdout\n", 'line 2: unknown split "holdout"'),
        (b"file_name,label\n\xff\xfe.png,a\n", "not encoded in UTF-8"),
        (b'file_name,label\n"' + b"x" * 200_000 + b'",a\n', "cannot be read as CSV"),
    ],
)
def test_tables_that_cannot_be_read(content: bytes, says: str, tmp_path: Path) -> None:
    put(tmp_path / "x.png")
    (tmp_path / "labels.csv").write_bytes(content)
    with pytest.raises(DataError, match=says):
        load(tmp_path)
