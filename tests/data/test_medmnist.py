"""MedMNIST's .npz files, grey and in colour, small and large."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tamatch.cli import main
from tamatch.data import DATASETS, load, medmnist
from tamatch.data.archives import MEDMNIST_NAMES
from tamatch.errors import DataError
from tests.data.publisher_files import md5
from tests.tiny import BRIEF

COUNTS = {"train": 27, "val": 9, "test": 18}


def write(
    root: Path, name: str, side: int, patch: pytest.MonkeyPatch, *, grey: bool = False
) -> dict[str, np.ndarray]:
    """A small file of the publisher's kind; returns its arrays."""
    random, archive = np.random.RandomState(0), medmnist.MEDMNIST[name, side]
    arrays = {}
    for part, count in COUNTS.items():
        shape = (count, side, side) if grey else (count, side, side, 3)
        arrays[f"{part}_images"] = random.randint(0, 256, shape).astype(np.uint8)
        classes = len(medmnist.CLASSES[name])
        arrays[f"{part}_labels"] = (np.arange(count) % classes)[:, None].astype(np.uint8)
    np.savez_compressed(root / archive.file, **arrays)
    patch.setitem(medmnist.MEDMNIST, (name, side), replace(archive, md5=md5(root / archive.file)))
    return arrays


def test_three_parts_in_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = write(tmp_path, "pathmnist", 28, monkeypatch)
    data = load("pathmnist", tmp_path, 28)
    whole = np.concatenate([arrays[f"{part}_images"] for part in COUNTS])
    assert (data.images == whole).all() and len(data.classes) == 9
    assert [len(part) for part in data.parts] == [27, 0, 9, 18]
    assert data.labels.tolist() == [i % 9 for n in COUNTS.values() for i in range(n)]
    assert (data.files[0], data.files[27], data.files[36]) == ("train/0", "val/0", "test/0")


def test_grey_images_are_scaled_as_the_benchmark_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = write(tmp_path, "tissuemnist", 28, monkeypatch, grey=True)
    data = load("tissuemnist", tmp_path)
    first = Image.fromarray(arrays["train_images"][0]).convert("RGB")
    expected = np.asarray(first.resize((32, 32), Image.Resampling.BILINEAR))
    assert (data.images[0] == expected).all() and data.shuffled_first


def test_the_folder_of_the_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "medmnist" / "pathmnist"
    folder.mkdir(parents=True)
    write(folder, "pathmnist", 28, monkeypatch)
    assert len(load("pathmnist", tmp_path).images) == 54


@pytest.mark.parametrize("side", [64, 128, 224])
def test_a_published_size_has_its_own_file(
    side: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "breastmnist", 28, monkeypatch, grey=True)
    with pytest.raises(DataError, match=rf"files/breastmnist_{side}.npz \(MD5"):
        load("breastmnist", tmp_path, side)
    arrays = write(tmp_path, "breastmnist", side, monkeypatch, grey=True)
    data = load("breastmnist", tmp_path, side)
    assert (data.images[:27] == arrays["train_images"][..., None]).all()


@pytest.mark.parametrize("fault", ["missing", "changed", "no arrays"])
def test_wrong_files(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "bloodmnist", 28, monkeypatch)
    file = tmp_path / "bloodmnist.npz"
    if fault == "missing":
        file.unlink()
    elif fault == "changed":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        np.savez(file, images=np.zeros(3))
        archive = medmnist.MEDMNIST["bloodmnist", 28]
        monkeypatch.setitem(medmnist.MEDMNIST, ("bloodmnist", 28), replace(archive, md5=md5(file)))
    said = {
        "missing": "bloodmnist not found",
        "changed": "bloodmnist.npz is not the published file: its MD5 is",
        "no arrays": "bloodmnist.npz has no array train_labels that can be read",
    }[fault]
    with pytest.raises(DataError, match=said) as error:
        load("bloodmnist", tmp_path)
    if fault != "no arrays":
        assert "https://zenodo.org/records/10519652/files/bloodmnist.npz" in str(error.value)


def test_several_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="chestmnist has several labels for each image"):
        load("chestmnist", tmp_path)


def test_its_file_as_one_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "pathmnist", 28, monkeypatch)
    with pytest.raises(DataError, match="MedMNIST's files are read by name"):
        load(tmp_path / "pathmnist.npz")


def test_every_set_has_classes_checksums_and_a_name() -> None:
    named = {name for name, reader in DATASETS.items() if reader == "medmnist:read"}
    assert named == medmnist.CLASSES.keys() == {*MEDMNIST_NAMES}
    sums = [archive.md5 for archive in medmnist.MEDMNIST.values()]
    assert len(sums) == len({*sums}) == 44 and all(len(sum) == 32 for sum in sums)


def test_it_is_checked_and_trained_on_as_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "pathmnist", 28, monkeypatch)
    given = ["--root", str(tmp_path), "--labels-per-class", "1"]
    assert main(["check", "pathmnist", *given]) == 0
    assert "9 classes, 54 images at 32 × 32 pixels" in capsys.readouterr().out
    words = ["train", "--data", "pathmnist", "--method", "fixmatch", *given, *BRIEF]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert "test error" in capsys.readouterr().out
