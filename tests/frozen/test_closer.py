"""`tamatch check --weights`: doubtful labels and nearly equal images, by features."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tamatch.cli import main
from tamatch.errors import UsageError
from tamatch.runs.closer import look_closer
from tests.photos import dark_and_light

SIDE = 24


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six labels a class, one of them wrong, and a test image that is a training image, nearly."""
    place = dark_and_light(tmp_path / "photos", 6, 20, (SIDE, SIDE))
    shutil.move(place / "train" / "dark" / "0.png", place / "train" / "light" / "wrong.png")
    pixels = np.asarray(Image.open(place / "unlabelled" / "3.png")).copy()
    pixels[0, 0] = 255 - pixels[0, 0]
    Image.fromarray(pixels).save(place / "test" / "light" / "again.png")
    return place


def test_wrong_labels_and_images_that_come_again(
    photos: Path, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(photos), "--weights", tiny]) == 0
    told = capsys.readouterr().out
    assert "1 doubtful label, by the features of" in told
    assert "  train/light/wrong.png: light, rather dark (" in told
    [line] = [line for line in told.splitlines() if "again.png" in line]
    assert "unlabelled/3.png" in line and line.endswith(" (both in training and held out)")
    assert main(["check", str(photos), "--weights", tiny, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["closer"]
    [[file, label, instead, sure]] = found["doubtful"]
    assert (file, label, instead) == ("train/light/wrong.png", "light", "dark") and sure > 0.5
    first, again, cosine, leak = found["alike"][0]
    assert {first, again} == {"unlabelled/3.png", "test/light/again.png"}
    assert leak and cosine > 0.95


def test_equal_images_are_told_once(photos: Path, tiny: str) -> None:
    shutil.copy(photos / "unlabelled" / "5.png", photos / "test" / "light" / "same.png")
    pairs = [{*pair[:2]} for pair in look_closer(str(photos), None, tiny).alike]
    assert pairs and {"unlabelled/5.png", "test/light/same.png"} not in pairs


def test_without_weights_no_net_looks(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(photos), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["closer"] is None


def test_named_data_sets_are_not_looked_at(tiny: str) -> None:
    with pytest.raises(UsageError, match="--weights looks at your own images"):
        look_closer("cifar10", None, tiny)
