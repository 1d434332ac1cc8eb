"""EuroSAT from class folders in any image format, and from the zip."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tamatch.data import eurosat, load
from tamatch.errors import DataError
from tests.data.publisher_files import md5

PUBLISHED = eurosat.COUNTS
COUNTS = {"Forest": 12, "River": 5, "SeaLake": 11}


def write(folder: Path, suffix: str, side: int = 64) -> None:
    random = np.random.RandomState(0)
    for name, count in COUNTS.items():
        (folder / name).mkdir(parents=True)
        for n in range(1, count + 1):
            pixels = random.randint(0, 256, (side, side, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{name}_{n}{suffix}")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eurosat, "COUNTS", COUNTS)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".tif"])
def test_order_and_parts_do_not_depend_on_the_format(suffix: str, tmp_path: Path) -> None:
    write(tmp_path / "EuroSAT_RGB", suffix)
    data = load("eurosat", tmp_path)
    forest = sorted(f"Forest/Forest_{n}{suffix}" for n in range(1, 13))
    assert data.files[:12] == forest
    assert forest[:3] == [f"Forest/Forest_{n}{suffix}" for n in (1, 10, 11)]
    # floor of 80 %: 9 of 12, 4 of 5, 8 of 11
    assert data.part("train").tolist() == [*range(9), *range(12, 16), *range(17, 25)]
    assert data.part("test").tolist() == [9, 10, 11, 16, 25, 26, 27]
    assert data.labels.tolist() == [0] * 12 + [1] * 5 + [2] * 11
    assert data.images.shape == (28, 32, 32, 3)
    assert data.shuffled_first


def test_scaled_as_the_benchmark_does(tmp_path: Path) -> None:
    write(tmp_path / "EuroSAT_RGB", ".jpg")
    data = load("eurosat", tmp_path)
    with Image.open(tmp_path / "EuroSAT_RGB" / data.files[3]) as image:
        expected = np.asarray(image.resize((32, 32), Image.Resampling.BILINEAR))
    assert (data.images[3] == expected).all()


def test_small_images_are_taken_as_they_are(tmp_path: Path) -> None:
    write(tmp_path / "EuroSAT_RGB", ".png", side=32)
    data = load("eurosat", tmp_path)
    with Image.open(tmp_path / "EuroSAT_RGB" / data.files[0]) as image:
        assert (data.images[0] == np.asarray(image)).all()


def test_zip_reads_as_the_folder_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "2750", ".jpg")
    from_folder = load("eurosat", tmp_path)
    root = tmp_path / "zipped"
    root.mkdir()
    with zipfile.ZipFile(root / "EuroSAT.zip", "w") as archive:
        for path in sorted((tmp_path / "2750").rglob("*.jpg"), reverse=True):
            archive.write(path, path.relative_to(tmp_path))
    with pytest.raises(DataError, match="not the published file"):
        load("eurosat", root)
    own = replace(eurosat.EARLIER, md5=md5(root / "EuroSAT.zip"))
    monkeypatch.setattr(eurosat, "EARLIER", own)
    from_zip = load("eurosat", root)
    assert from_zip.files == from_folder.files
    assert (from_zip.images == from_folder.images).all()


def test_a_missing_image_is_noticed(tmp_path: Path) -> None:
    write(tmp_path / "EuroSAT_RGB", ".png")
    (tmp_path / "EuroSAT_RGB" / "River" / "River_2.png").unlink()
    with pytest.raises(DataError, match=r"4 images of River, expected 5. Download https://zenodo"):
        load("eurosat", tmp_path)


def test_a_broken_image_is_an_error_here(tmp_path: Path) -> None:
    write(tmp_path / "EuroSAT_RGB", ".png")
    (tmp_path / "EuroSAT_RGB" / "River" / "River_2.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"River_2.png cannot be read: the file is empty"):
        load("eurosat", tmp_path)


def test_published_counts() -> None:
    assert sum(PUBLISHED.values()) == 27_000
    assert sum(n * 8 // 10 for n in PUBLISHED.values()) == 21_600
