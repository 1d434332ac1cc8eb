"""ImageNet by folder, with SimCLR's lists of labelled images."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tamatch.cli import main
from tamatch.data import SplitPlan, load, make_split
from tamatch.errors import DataError
from tests.data.pictures import put
from tests.tiny import BRIEF

LISTED = ["n02_3.JPEG", "n01_1.JPEG"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two classes of four training and two validation images; one of each class is listed."""
    shade = iter(range(10, 250, 5))
    for name in ("n01", "n02"):
        for i in range(4):
            put(tmp_path / "train" / name / f"{name}_{i}.JPEG", next(shade))
        for i in range(2):
            put(tmp_path / "val" / name / f"ILSVRC2012_val_{name}_{i}.JPEG", next(shade))
    (tmp_path / "1percent.txt").write_text("\n".join(LISTED) + "\n")
    return tmp_path


def test_listed_images_are_labelled(root: Path) -> None:
    data = load("imagenet-1percent", root, 16)
    assert data.classes == ("n01", "n02") and data.images.shape == (12, 16, 16, 3)
    split = make_split(data, SplitPlan())
    assert [data.files[i] for i in split.labelled] == [
        "train/n01/n01_1.JPEG", "train/n02/n02_3.JPEG",
    ]  # fmt: skip
    assert sorted(split.unlabelled.tolist()) == [*range(8)]
    assert [data.files[i] for i in split.test][:1] == ["val/n01/ILSVRC2012_val_n01_0.JPEG"]
    assert data.labels.tolist() == [0] * 4 + [1] * 4 + [0] * 2 + [1] * 2


def test_the_folder_may_lie_in_the_root_and_the_lists_as_in_their_repository(root: Path) -> None:
    inner = root / "data" / "imagenet"
    (inner / "imagenet_subsets").mkdir(parents=True)
    for part in ("train", "val"):
        shutil.move(root / part, inner / part)
    (root / "1percent.txt").rename(inner / "imagenet_subsets" / "10percent.txt")
    assert len(load("imagenet-10percent", root / "data", 16).part("train")) == 2


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("no images", r"imagenet-1percent not found in .* https://image-net.org/download"),
        ("no list", r"1percent.txt is missing. Download it from https://github.com/google"),
        ("empty list", "1percent.txt is empty. Download it again"),
        ("other list", r"names 1 of 3 images that are not in .*train, such as n03_1.JPEG"),
        ("flat val", r"val/n01 has no images. ImageNet is at https://image-net.org/download"),
        ("broken", r"n02_0.JPEG cannot be read: the file is empty. Unpack it again"),
    ],
)
def test_wrong_files(fault: str, said: str, root: Path) -> None:
    names = root / "1percent.txt"
    if fault == "no images":
        shutil.rmtree(root / "train")
    elif fault == "no list":
        names.unlink()
    elif fault == "empty list":
        names.write_text("\n")
    elif fault == "other list":
        names.write_text("\n".join([*LISTED, "n03_1.JPEG"]))
    elif fault == "flat val":
        for image in [*(root / "val" / "n01").iterdir()]:
            image.rename(root / "val" / image.name)
    else:
        (root / "train" / "n02" / "n02_0.JPEG").write_bytes(b"")
    with pytest.raises(DataError, match=said):
        load("imagenet-1percent", root, 16)


def test_it_is_checked_and_trained_on_as_it_is_typed(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--root", str(root), "--size", "16"]
    assert main(["check", "imagenet-1percent", *given]) == 0
    assert "every listed image is there" in capsys.readouterr().out
    words = ["train", "--data", "imagenet-1percent", "--method", "fixmatch", *given, *BRIEF]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert "test error" in capsys.readouterr().out
