"""STL-10 in the publisher's binary format."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tamatch.data import UNKNOWN, SplitPlan, load, make_split, stl10
from tamatch.errors import DataError
from tests.data.publisher_files import md5, tar

COUNTS = {"train": 20, "unlabeled": 30, "test": 10}


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """A small STL-10 in tmp_path; returns its images in order."""
    folder = tmp_path / stl10.STL10.folder
    folder.mkdir()
    pixels = np.random.RandomState(0).randint(0, 256, (60, 96, 96, 3)).astype(np.uint8)
    first = 0
    for part, count in COUNTS.items():
        own = pixels[first : first + count]
        # the publisher's order: colour, column, row
        (folder / f"{part}_X.bin").write_bytes(own.transpose(0, 3, 2, 1).tobytes())
        if part != "unlabeled":
            (folder / f"{part}_y.bin").write_bytes(bytes(1 + i % 10 for i in range(count)))
        first += count
    monkeypatch.setattr(stl10, "COUNTS", COUNTS)
    monkeypatch.setattr(stl10, "BATCH", 8)
    monkeypatch.setattr(stl10, "MD5", {name: md5(folder / name) for name in stl10.MD5})
    return pixels


@pytest.mark.parametrize("packed", [False, True])
def test_reads_folder_and_archive(
    packed: bool, images: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if packed:
        archive = tmp_path / stl10.STL10.file
        tar(tmp_path / stl10.STL10.folder, archive)
        monkeypatch.setattr(stl10, "STL10", replace(stl10.STL10, md5=md5(archive)))
        shutil.rmtree(tmp_path / stl10.STL10.folder)
    seen: list[tuple[int, int]] = []
    data = load("stl10", tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert (data.images == images).all()
    assert [len(part) for part in data.parts] == [20, 30, 0, 10]
    assert data.labels[:20].tolist() == [i % 10 for i in range(20)]
    assert (data.labels[20:50] == UNKNOWN).all()
    assert data.files[0] == "train/0" and data.files[20] == "unlabeled/0"
    assert seen[-1] == (60, 60)
    seen.clear()
    again = load("stl10", tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert (again.images == images).all() and not seen, "the second time it comes from the cache"


def test_pool_has_the_labelled_images_twice(images: np.ndarray, tmp_path: Path) -> None:
    split = make_split(load("stl10", tmp_path), SplitPlan(labels_per_class=1))
    assert len(split.labelled) == 10
    assert len(split.unlabelled) == 10 + 30 + 20


def test_another_size(images: np.ndarray, tmp_path: Path) -> None:
    assert load("stl10", tmp_path, 32).images.shape == (60, 32, 32, 3)


@pytest.mark.parametrize("fault", ["changed", "missing"])
def test_each_file_is_verified(fault: str, images: np.ndarray, tmp_path: Path) -> None:
    file = tmp_path / stl10.STL10.folder / "test_y.bin"
    if fault == "missing":
        file.unlink()
    else:
        file.write_bytes(bytes([1] * 10))
    with pytest.raises(DataError, match=r"test_y.bin is (missing|not the published file)"):
        load("stl10", tmp_path)


def test_a_short_file_is_noticed_even_under_its_checksum(
    images: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / stl10.STL10.folder / "train_X.bin"
    file.write_bytes(file.read_bytes()[:-1])
    monkeypatch.setitem(stl10.MD5, "train_X.bin", md5(file))
    with pytest.raises(DataError, match=r"train_X.bin does not match"):
        load("stl10", tmp_path)
