"""A table of labels that adds to a folder's own: what it changes and what it may not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamatch import cli
from tamatch.data import UNKNOWN, DataSet, SplitPlan, load, make_split
from tamatch.errors import DataError, TamatchError, UsageError
from tests.data.pictures import put


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "photos"
    for i, name in enumerate(("cat/a.png", "cat/b.png", "dog/a.png", "unlabelled/1.png")):
        put(place / name, 10 + 9 * i)
    for i in range(2, 6):
        put(place / f"unlabelled/{i}.png", 100 + 9 * i)
    return place


def table(photos: Path, *lines: str) -> Path:
    path = photos.parent / "labels.csv"
    path.write_text("\n".join(["file_name,label", *lines, ""]))
    return path


def labels_of(data: DataSet) -> dict[str, str | None]:
    named = zip(data.files, data.labels, strict=True)
    return {f: None if c == UNKNOWN else data.classes[c] for f, c in named}


def test_labels_are_added_and_win_over_folders(photos: Path) -> None:
    before = load(photos)
    given = table(photos, "unlabelled/1.png,dog", "./cat/b.png,dog", "unlabelled/2.png,")
    data = load(photos, labels=given)
    changed = {k: v for k, v in labels_of(data).items() if labels_of(before)[k] != v}
    assert changed == {"unlabelled/1.png": "dog", "cat/b.png": "dog"}
    in_training = {data.files[i] for i in data.part("train")}
    assert in_training == {"cat/a.png", "cat/b.png", "dog/a.png", "unlabelled/1.png"}
    assert {data.files[i] for i in data.part("unlabelled")} == {
        f"unlabelled/{i}.png" for i in range(2, 6)
    }
    assert (data.mean, data.std) == (before.mean, before.std)
    assert np.array_equal(data.images, before.images) and data.sha256() != before.sha256()
    split = make_split(data, SplitPlan())
    assert len(split.labelled) == 4 and len(split.unlabelled) == 8


def test_an_empty_class_folder_may_get_its_first_images(photos: Path) -> None:
    (photos / "horse").mkdir()
    with pytest.raises(DataError, match='class "horse" has no labelled image'):
        make_split(load(photos), SplitPlan())
    data = load(photos, labels=table(photos, "unlabelled/1.png,horse"))
    assert data.classes == ("cat", "dog", "horse")
    assert len(make_split(data, SplitPlan()).labelled) == 4


def test_files_that_cannot_be_used_may_be_named(photos: Path) -> None:
    (photos / "unlabelled" / "torn.png").write_bytes(b"no picture")
    data = load(photos, labels=table(photos, "unlabelled/torn.png,cat", "unlabelled/1.png,cat"))
    assert labels_of(data)["unlabelled/1.png"] == "cat"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["cat/a.png,cat", "9.png,dog"], r"line 3: photos has no image 9.png\. File names are"),
        (["1.png,dog"], r"line 2: photos has no image 1.png\. Perhaps you meant unlabelled/1.png"),
        (
            ["unlabelled/1.png,Cta"],
            r'line 2: "Cta" is not a class of photos\. Perhaps you meant cat\.',
        ),
        (["cat/a.png,zebra"], r'"zebra" is not a class .* A new class needs its .* cat, dog'),
        (["cat/a.png,cat", "cat/a.png,dog"], 'lines 2 and 3: cat/a.png is listed as "cat" and as'),
        (["cat/a.png,cat", "cat/./a.png,dog"], r'lines 2 and 3: cat/a.png is listed as "cat" and'),
        (["/etc/passwd,cat"], "line 2: photos has no image /etc/passwd"),
        (["../photos/cat/a.png,cat"], "line 2: photos has no image"),
    ],
)
def test_mistakes_are_told_with_their_line(photos: Path, lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(photos, labels=table(photos, *lines))


def test_the_table_must_be_there_and_elsewhere(photos: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv does not exist"):
        load(photos, labels=photos.parent / "none.csv")
    (photos / "labels.csv").write_text("file_name,label\ncat/a.png,cat\n")
    with pytest.raises(UsageError, match=r"a labels.csv replaces the class folders. Move it"):
        load(photos, labels=photos / "labels.csv")


def test_a_table_in_a_class_folder_replaces_nothing(photos: Path) -> None:
    given = photos / "cat" / "labels.csv"
    given.write_text("file_name,label\nunlabelled/1.png,cat\n")
    assert len(load(photos, labels=given).part("train")) == 4


def test_names_and_labels_as_programs_write_them(photos: Path) -> None:
    lines = (
        "unlabelled\\1.png,dog",
        f"{photos}/cat/a.png,dog",
        "cat/b.png,nan",
        "dog/a.png,Unlabelled",
    )
    before, data = load(photos), load(photos, labels=table(photos, *lines))
    changed = {k: v for k, v in labels_of(data).items() if labels_of(before)[k] != v}
    assert changed == {"unlabelled/1.png": "dog", "cat/a.png": "dog"}
    assert data.notes == ('images with the label "nan", treated as unlabelled: 1',)


def test_names_as_seen_from_above_the_folder(photos: Path) -> None:
    put(photos / "photos" / "1.png", 200)  # a class of the folder's own name: it comes first
    put(photos / "photos" / "photos" / "1.png", 210)
    above = f"{photos.parent.name}/photos"
    lines = ("photos/unlabelled/1.png,dog", f"{above}/unlabelled/2.png,cat", "photos/1.png,cat")
    before, data = load(photos), load(photos, labels=table(photos, *lines))
    changed = {k: v for k, v in labels_of(data).items() if labels_of(before)[k] != v}
    assert changed == {"unlabelled/1.png": "dog", "unlabelled/2.png": "cat", "photos/1.png": "cat"}


def test_the_column_path_of_predict_names_the_images_too(photos: Path) -> None:
    given = photos.parent / "answers.csv"
    given.write_text("path,label,confidence\nphotos/unlabelled/1.png,dog,0.9\n")
    assert labels_of(load(photos, labels=given))["unlabelled/1.png"] == "dog"
    given.write_text("path,file_name,label\nelsewhere.png,unlabelled/1.png,dog\n")
    assert labels_of(load(photos, labels=given))["unlabelled/1.png"] == "dog"


def test_a_class_may_be_called_none(photos: Path) -> None:
    (photos / "None").mkdir()
    data = load(photos, labels=table(photos, "unlabelled/1.png,None"))
    assert labels_of(data)["unlabelled/1.png"] == "None" and not data.notes


def test_the_column_split_moves_an_image_to_its_part(photos: Path) -> None:
    given = table(photos)
    given.write_text(
        "file_name,label,split\nunlabelled/1.png,dog,test\ncat/b.png,cat,val\nunlabelled/2.png,,test\n"
    )
    data = load(photos, labels=given)
    names = [[data.files[i] for i in part] for part in data.parts]
    assert names[0] == ["cat/a.png", "dog/a.png"] and "unlabelled/2.png" in names[1]
    assert names[2:] == [["cat/b.png"], ["unlabelled/1.png"]]


def test_sets_with_all_their_labels_take_no_others(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="digits is already fully labelled"):
        load("digits", labels=table(tmp_path / "photos", "train/0,1"))


def test_check_counts_them(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = table(photos, "unlabelled/1.png,dog", "unlabelled/2.png,dog")
    assert cli.main(["check", str(photos), "--labels", str(given)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line.split()[:2] for line in lines if line.startswith("  dog")) == ["dog", "3"]
    given.write_text("file_name,label\nunlabelled/1.png,dgo\n")
    assert cli.main(["check", str(photos), "--labels", str(given)]) == 3
    assert "Perhaps you meant dog." in capsys.readouterr().err


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe\x00", b"a,b\n1,2\n", b'file_name,label\n"open'])
def test_no_table_at_all(photos: Path, raw: bytes) -> None:
    path = photos.parent / "labels.csv"
    path.write_bytes(raw)
    with pytest.raises(TamatchError):
        load(photos, labels=path)
