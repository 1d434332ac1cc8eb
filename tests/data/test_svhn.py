"""SVHN in the publisher's .mat files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from tamatch.cli import main
from tamatch.data import SplitPlan, load, make_split, svhn
from tamatch.errors import DataError
from tests.data.publisher_files import md5
from tests.tiny import BRIEF

COUNTS = {"train": 30, "test": 20, "extra": 300}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """A small SVHN in tmp_path; returns the images of each part."""
    random = np.random.RandomState(0)
    images = {}
    for part, count in COUNTS.items():
        images[part] = random.randint(0, 256, (count, 32, 32, 3)).astype(np.uint8)
        labels = 1 + np.arange(count, dtype=np.uint8)[:, None] % 10  # 1 … 10, where 10 is a zero
        file = tmp_path / f"{part}_32x32.mat"
        columns = {"X": images[part].transpose(1, 2, 3, 0), "y": labels}
        savemat(file, columns, do_compression=True)
        publish(part, file, monkeypatch)
    return images


def publish(part: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(svhn.SVHN, part, replace(svhn.SVHN[part], md5=md5(file)))


def test_training_and_test_digits(made: dict[str, np.ndarray], tmp_path: Path) -> None:
    data = load("svhn", tmp_path)
    assert (data.images == np.concatenate([made["train"], made["test"]])).all()
    assert data.labels[:12].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]
    assert data.classes[0] == "0" and [len(p) for p in data.parts] == [30, 0, 0, 20]
    assert (data.files[0], data.files[30]) == ("train/0", "test/0")
    split = make_split(data, SplitPlan(labels_per_class=1))
    assert len(split.labelled) == 10 and len(split.unlabelled) == 30


def test_the_extra_digits_are_a_set_of_their_own(
    made: dict[str, np.ndarray], tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    data = load("svhn-extra", tmp_path, progress=lambda *done: seen.append(done))
    assert (data.images[30:330] == made["extra"]).all() and (
        data.images[330:] == made["test"]
    ).all()
    assert [len(p) for p in data.parts] == [330, 0, 0, 20] and seen[-1] == (350, 350)
    assert load("svhn-extra", tmp_path, 16).images.shape == (350, 16, 16, 3)


@pytest.mark.parametrize("fault", ["missing", "changed", "garbage", "other arrays"])
def test_wrong_files(
    fault: str, made: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "train_32x32.mat"
    if fault == "missing":
        file.unlink()
    elif fault == "changed":
        content = bytearray(file.read_bytes())
        content[20] ^= 1  # in the comment at its beginning
        file.write_bytes(content)
    elif fault == "garbage":
        file.write_bytes(b"no MATLAB file" * 100)
    else:
        savemat(file, {"digitStruct": np.zeros(3)})
    said = {
        "missing": r"svhn not found in .* \(looked for train_32x32.mat\)",
        "changed": "train_32x32.mat is not the published file: its MD5 is",
        "garbage": "train_32x32.mat is not SVHN's file",
        "other arrays": "train_32x32.mat is not SVHN's file",
    }[fault]
    with pytest.raises(DataError, match=said) as error:
        load("svhn", tmp_path)
    assert "http://ufldl.stanford.edu/housenumbers/train_32x32.mat" in str(error.value)
    assert "--download" in str(error.value) and "\n" not in str(error.value)


def test_the_extra_file_is_asked_for_by_its_own_set(
    made: dict[str, np.ndarray], tmp_path: Path
) -> None:
    (tmp_path / "svhn").mkdir()
    for part in COUNTS:  # as torchvision and the benchmark put them
        (tmp_path / f"{part}_32x32.mat").rename(tmp_path / "svhn" / f"{part}_32x32.mat")
    assert len(load("svhn-extra", tmp_path).images) == 350
    (tmp_path / "svhn" / "extra_32x32.mat").unlink()
    load("svhn", tmp_path)
    with pytest.raises(DataError, match=r"tamatch check svhn-extra .* --download"):
        load("svhn-extra", tmp_path)


def test_it_is_checked_and_trained_on_as_it_is_typed(
    made: dict[str, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--root", str(tmp_path), "--labels-per-class", "2"]
    assert main(["check", "svhn", *given]) == 0
    assert "train        test" in capsys.readouterr().out
    words = ["train", "--data", "svhn", "--method", "fixmatch", *given, *BRIEF]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert "test error" in capsys.readouterr().out
