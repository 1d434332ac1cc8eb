"""`tamatch pick`: from a folder, from labels, from a run."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest

import tamatch
from tamatch.cli import main
from tamatch.errors import DataError, UsageError
from tests.photos import dark_and_light


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return dark_and_light(tmp_path / "photos", 3, 20, (24, 30))


@pytest.fixture
def loose(photos: Path) -> Path:
    """The same images without one label, beside each other."""
    place = photos.parent / "loose"
    place.mkdir()
    for i, file in enumerate(sorted((photos / "unlabelled").iterdir())):
        shutil.copy(file, place / f"{i:02d}{file.suffix}")
    return place


def test_from_a_folder_without_one_label(
    loose: Path, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    picked = tamatch.pick(loose, 4, weights=tiny)
    assert len({*picked.files}) == 4 and picked.labels == 0
    assert picked.pool == len([*loose.iterdir()])
    assert all((loose / file).is_file() for file in picked.files)
    assert main(["pick", str(loose), "--count", "4", "--weights", tiny]) == 0
    assert capsys.readouterr().out.split() == [*picked.files]


def test_the_table_can_be_filled_in_and_given_back(
    loose: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "to label.csv"
    assert main(["pick", str(loose), "--weights", tiny, "--count", "6", "--csv", str(table)]) == 0
    assert f"then save it as {loose / 'labels.csv'}." in capsys.readouterr().out
    with pytest.raises(UsageError, match="already exists"):
        tamatch.pick(loose, csv=table)
    rows = [*csv.DictReader(table.read_text().splitlines())]
    assert [*rows[0]] == ["file_name", "label", "drawn"]
    assert not any(row["label"] for row in rows) and {row["drawn"] for row in rows} == {"no"}
    with (loose / "labels.csv").open("w") as file:
        out = csv.writer(file)
        out.writerow(("file_name", "label"))
        out.writerows((row["file_name"], "ab"[i % 2]) for i, row in enumerate(rows))
    more = tamatch.pick(loose, 5, table, weights=tiny, overwrite=True)
    assert (
        more.then == "give it as --labels"
        and more.labels == 6
        and not {*more.files} & {row["file_name"] for row in rows}
    )


def test_some_more_are_drawn_at_random_and_marked(
    loose: Path, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "to label.csv"
    words = ["pick", str(loose), "--weights", tiny, "--count", "5", "--drawn", "4"]
    assert main([*words, "--csv", str(table)]) == 0
    assert "9 of 20 images without a label" in (said := capsys.readouterr().out)
    assert "the last 4 are drawn at random" in said
    rows = [*csv.DictReader(table.read_text().splitlines())]
    assert [row["drawn"] for row in rows] == ["no"] * 5 + ["yes"] * 4
    assert len({row["file_name"] for row in rows}) == 9
    assert tamatch.pick(loose, 5, weights=tiny).files == tuple(r["file_name"] for r in rows[:5])
    assert tamatch.pick(loose, 5, drawn=100, weights=tiny).drawn == 15  # all others


def test_labelled_and_test_images_are_not_picked(photos: Path, tiny: str, tmp_path: Path) -> None:
    picked = tamatch.pick(photos, 100, weights=tiny)
    assert picked.pool == len(picked.files) and picked.labels == 6
    assert all(file.startswith("unlabelled/") for file in picked.files)
    run = tamatch.train(data=str(photos), weights=tiny, out=tmp_path / "run", quiet=True)
    assert tamatch.pick(run.path, 100, weights=tiny).files == picked.files


def test_where_there_is_nothing_to_pick(photos: Path, tiny: str) -> None:
    with pytest.raises(UsageError, match="--count must be at least 1"):
        tamatch.pick(photos, 0)
    with pytest.raises(UsageError, match="--drawn must be at least 0"):
        tamatch.pick(photos, drawn=-1)
    with pytest.raises(UsageError, match="fully labelled"):
        tamatch.pick("cifar10")
    (empty := photos.parent / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty contains no images\.$"):
        tamatch.pick(empty, weights=tiny)
    shutil.rmtree(photos / "unlabelled")
    with pytest.raises(DataError, match="already have a label"):
        tamatch.pick(photos, weights=tiny)


def test_folders_beside_images_may_be_no_classes(
    loose: Path, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (loose / "2023").mkdir()
    for file in sorted(loose.glob("*.png"))[:8]:
        file.rename(loose / "2023" / file.name)
    words = ["pick", str(loose), "--count", "4", "--weights", tiny]
    assert main(words) == 0
    said = capsys.readouterr()
    table = loose / "labels.csv"
    assert f"are read as classes: 2023. If they are none, write {table} " in said.err
    assert len(said.out.split()) == 4
    table.write_text("file_name,label\n")
    picked = tamatch.pick(loose, 4, weights=tiny)
    assert (picked.remarks, picked.pool, picked.labels) == ((), 20, 0)


def test_class_folders_alone_are_not_remarked_on(photos: Path, tiny: str) -> None:
    assert tamatch.pick(photos, 4, weights=tiny).remarks == ()


def test_files_that_cannot_be_read_are_remarked_on(
    loose: Path, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (loose / "broken.png").write_text("no picture")
    assert main(["pick", str(loose), "--count", "4", "--weights", tiny]) == 0
    said = capsys.readouterr()
    assert said.err == f"1 file left out (`tamatch check {loose}` says why).\n"
    assert len(said.out.split()) == 4


@pytest.mark.parametrize("name", ["notes.txt", "broken.png"])
def test_no_weights_are_fetched_for_a_folder_without_images(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))  # there, weights would be an error
    (place := tmp_path / "photos").mkdir()
    (place / name).write_text("no picture")
    with pytest.raises(DataError, match=r"contains no images|no image in .* can be read"):
        tamatch.pick(place)
