"""NumPy arrays as data, in memory and from an .npz file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tamatch
from tamatch.data import load
from tamatch.data.arrays import from_arrays
from tamatch.errors import DataError, UsageError

IMAGES = np.random.RandomState(0).randint(0, 256, (6, 8, 8, 3)).astype(np.uint8)
LABELS = np.array([7, -1, 3, 7, -1, 3])


def test_minus_one_is_unlabelled() -> None:
    data = from_arrays(IMAGES, LABELS)
    assert data.classes == ("3", "7")
    assert data.labels.tolist() == [1, -1, 0, 1, -1, 0]
    assert [part.tolist() for part in data.parts] == [[0, 2, 3, 5], [1, 4], [], []]
    assert (data.images == IMAGES).all() and data.given_labels


def test_a_test_part() -> None:
    data = from_arrays(IMAGES, LABELS, IMAGES[:2], np.array([3, 7]))
    assert data.part("test").tolist() == [6, 7]
    assert data.files[-2:] == ["test/0", "test/1"]


def test_colours_are_measured_on_the_training_images_alone() -> None:
    alone = from_arrays(IMAGES, LABELS)
    white = from_arrays(IMAGES, LABELS, np.full_like(IMAGES, 255), np.array([3, 7] * 3))
    assert (white.mean, white.std) == (alone.mean, alone.std)
    pixels = IMAGES.reshape(-1, 3) / 255
    assert alone.mean == pytest.approx(pixels.mean(0).tolist(), abs=5e-5)
    assert alone.std == pytest.approx(pixels.std(0).tolist(), abs=5e-5)


def test_grey_and_float_images() -> None:
    grey = from_arrays(IMAGES[..., 0], LABELS)
    assert grey.images.shape == (6, 8, 8, 3)
    assert (grey.images == IMAGES[..., :1]).all()
    assert (from_arrays(IMAGES / 255.0, LABELS).images == IMAGES).all()
    assert from_arrays(IMAGES[:, :5], LABELS).images.shape == (6, 5, 5, 3)


@pytest.mark.parametrize(
    ("images", "labels", "says"),
    [
        (IMAGES[0], LABELS, "must be integers|must be 8 integers"),
        (IMAGES[..., :2], LABELS, r"must be \(N, H, W\)"),
        (IMAGES * 1.0, LABELS, "floats and must be in 0 … 1"),
        (IMAGES.astype(np.int64), LABELS, "must be bytes"),
        (IMAGES, LABELS[:5], "must be 6 integers"),
        (IMAGES, LABELS * 1.0, "must be 6 integers"),
        (IMAGES, LABELS - 1, "-1 for unlabelled"),
        (IMAGES[:0], LABELS[:0], r"must be \(N, H, W\)"),
    ],
)
def test_what_cannot_be_used(images: np.ndarray, labels: np.ndarray, says: str) -> None:
    with pytest.raises(DataError, match=says):
        from_arrays(images, labels)


def test_npz_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, images=IMAGES, labels=LABELS, test_images=IMAGES, test_labels=LABELS)
    data = load(path)
    assert data.name == "mine" and len(data.part("test")) == 4
    np.savez(path, pictures=IMAGES)
    with pytest.raises(DataError, match="needs the arrays images and labels"):
        load(path)
    path.write_bytes(b"no zip")
    with pytest.raises(DataError, match="cannot be read"):
        load(path)


def test_npz_with_pickled_objects_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evil.npz"
    np.savez(path, images=np.array([print], object), labels=LABELS)
    with pytest.raises(DataError, match="cannot be read"):
        load(path)


def test_arrays_as_a_run_s_data_are_told_where_to_go() -> None:
    images, labels = np.zeros((4, 8, 8, 3), np.uint8), np.array([0, 1, -1, -1])
    with pytest.raises(
        UsageError, match=r"TaMatchClassifier\(\)\.fit\(X, y\), or save them as an \.npz"
    ):
        tamatch.train(data=(images, labels), steps=1)  # type: ignore[arg-type]
