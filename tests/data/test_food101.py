"""Food-101 from its folder and lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamatch.cli import main
from tamatch.data import food101, load
from tamatch.errors import DataError
from tests.data.pictures import put
from tests.tiny import BRIEF

COUNTS = {"train": 3, "test": 2}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two classes, three and two images each; their lists are not sorted by number."""
    monkeypatch.setattr(food101, "COUNTS", COUNTS)
    place = tmp_path / "food-101"
    shade = iter(range(10, 250, 5))
    for part, numbers in {"train": ("30", "4", "100"), "test": ("7", "5")}.items():
        lines = [f"{name}/{n}" for name in ("apple_pie", "waffles") for n in numbers]
        for line in lines:
            put(place / "images" / f"{line}.jpg", next(shade))
        (place / "meta").mkdir(exist_ok=True)
        (place / "meta" / f"{part}.txt").write_text("\n".join(lines) + "\n")
    return place


def test_the_lists_say_what_is_read(folder: Path) -> None:
    put(folder / "images" / "waffles" / "unlisted.jpg", 0)
    data = load("food101", folder.parent, 16)
    assert data.classes == ("apple_pie", "waffles") and data.images.shape == (10, 16, 16, 3)
    assert [len(part) for part in data.parts] == [6, 0, 0, 4]
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 1, 1]
    assert data.files[:2] == ["images/apple_pie/30.jpg", "images/apple_pie/4.jpg"]
    assert data.images[0].mean() != data.images[1].mean()


@pytest.mark.parametrize("fault", ["no folder", "no list", "short list", "no image", "broken"])
def test_wrong_files(fault: str, folder: Path) -> None:
    image, listed = folder / "images" / "waffles" / "7.jpg", folder / "meta" / "train.txt"
    if fault == "no folder":
        folder.rename(folder.with_name("food"))
    elif fault == "no list":
        listed.unlink()
    elif fault == "short list":
        listed.write_text(listed.read_text().replace("waffles/4\n", ""))
    elif fault == "no image":
        image.unlink()
    else:
        image.write_bytes(image.read_bytes()[:40])
    said = {
        "no folder": r"food101 not found in .* \(looked for food-101\)",
        "no list": "meta/train.txt is missing or damaged",
        "short list": "meta/train.txt does not list 3 images of each class",
        "no image": r"images/waffles/7.jpg cannot be read: No such file",
        "broken": r"images/waffles/7.jpg cannot be read",
    }[fault]
    with pytest.raises(DataError, match=said) as error:
        load("food101", folder.parent, 16)
    assert "food-101.tar.gz (MD5 85eeb15f3717b99a5da872d97d918f87)" in str(error.value)
    assert str(error.value).endswith("Then unpack it: tar -xzf food-101.tar.gz.")


def test_it_is_checked_and_trained_on_as_it_is_typed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--root", str(folder.parent), "--labels-per-class", "1", "--size", "16"]
    assert main(["check", "food101", *given]) == 0
    assert "the lists have the right counts" in capsys.readouterr().out
    words = ["train", "--data", "food101", "--method", "fixmatch", *given, *BRIEF]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert "test error" in capsys.readouterr().out
