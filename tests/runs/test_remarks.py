"""What a run says about its data: held-out images that it learns from, contradictory labels."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tamatch
from tamatch.data.splitfile import listed_in
from tests.photos import dark_and_light


def test_without_test_images_it_is_said_before_the_run_and_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = dark_and_light(tmp_path / "photos", 3, 2, (8, 8))
    (folder / "train/dark/broken.png").write_bytes(b"")
    shutil.rmtree(folder / "test")
    tamatch.train(data=folder, steps=1, size=8, baseline="supervised", out=tmp_path / "run")
    told = capsys.readouterr().err
    for line in ("There are no test images", "1 of 9 images cannot be read"):
        assert told.count(line) == 1 and told.index(line) < told.index("step 1/1")


def test_test_images_that_are_learnt_from_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = dark_and_light(tmp_path / "photos", 3, 2, (8, 8))
    shutil.copy(folder / "train/dark/1.png", folder / "test/dark/copy.png")
    tamatch.train(data=folder, steps=1, size=8, baseline="none", out=tmp_path / "run")
    told = "1 of 7 test images are also labelled training images: the error will"
    assert told in capsys.readouterr().err


def test_equal_images_with_different_labels_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = dark_and_light(tmp_path / "photos", 3, 2, (8, 8))
    options = {"steps": 1, "size": 8, "baseline": "none"}
    shutil.copy(folder / "train/dark/1.png", folder / "train/dark/copy.png")
    tamatch.train(data=folder, out=tmp_path / "fine", **options)
    assert "a different label" not in capsys.readouterr().err
    shutil.copy(folder / "train/dark/1.png", folder / "train/light/copy.png")
    tamatch.train(data=folder, out=tmp_path / "run", **options)
    told = "1 labelled image occurs again, identical to the last pixel, with a different label"
    assert told in capsys.readouterr().err


def test_validation_images_that_are_learnt_from_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = dark_and_light(tmp_path / "photos", 3, 2, (8, 8))
    (folder / "test").rename(folder / "validation")
    shutil.copy(folder / "train/dark/1.png", folder / "validation/dark/copy.png")
    done = tamatch.train(data=folder, steps=1, size=8, baseline="none", out=tmp_path / "run")
    told = "1 of 7 validation images are also labelled training images"
    assert told in capsys.readouterr().err
    page = done.report_path.read_text()
    assert "1 of which are also labelled training images, so the figures look too good." in page
    assert "none of which" not in page


def test_copies_of_labelled_images_do_not_validate(tmp_path: Path) -> None:
    folder = dark_and_light(tmp_path / "photos", 4, 2, (8, 8))
    shutil.rmtree(folder / "test")
    for file in [*(folder / "train").glob("*/*.png")]:
        shutil.copy(file, file.with_stem(f"copy{file.stem}"))
    options = {"steps": 1, "size": 8, "baseline": "none", "validation_per_class": 3}
    done = tamatch.train(data=folder, out=tmp_path / "run", **options)
    hashes = listed_in(done.path / "split.csv", "hash")
    assert hashes["validation"] and not hashes["validation"] & hashes["labelled"]
    assert "none of which is a labelled training image" in done.report_path.read_text()
