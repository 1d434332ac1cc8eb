"""Images that are NumPy arrays: a caller's, those of an .npz file, scikit-learn's digits."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..storage.untrusted import read_npz
from .dataset import NONE, UNKNOWN, DataSet, Indices, Pixels, mean_std, part_by_part
from .decode import resized

DIGITS_SIDE = 8
DIGITS_TEST = 50  # test images of each class, the same for every seed


def from_arrays(
    images: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    test_images: npt.NDArray[Any] | None = None,
    test_labels: npt.NDArray[Any] | None = None,
    size: int | None = None,
    name: str = "arrays",
) -> DataSet:
    """A data set of arrays: images (N, H, W) or (N, H, W, 1 or 3), integer labels, -1 unlabelled.

    Pixels are bytes, or floats in 0 … 1. The classes are the labels that occur, in order. Images
    that are not square are cropped to their central square.
    """
    pixels, given = _pixels(images, "images"), _labels(labels, len(images), "labels")
    train = len(pixels)
    if test_images is not None and test_labels is not None:
        more = _pixels(test_images, "test_images")
        if more.shape[1:] != pixels.shape[1:]:
            raise DataError(
                f"test_images are {more.shape[1]} × {more.shape[2]}, but images are "
                f"{pixels.shape[1]} × {pixels.shape[2]}. They must have the same size."
            )
        pixels = np.concatenate([pixels, more])
        given = np.concatenate([given, _labels(test_labels, len(more), "test_labels")])
    elif test_images is not None or test_labels is not None:
        there, missing = ("labels", "images") if test_images is None else ("images", "labels")
        raise DataError(f"test_{there} are given without test_{missing}: give both, or neither.")
    pixels = resized(pixels, min(pixels.shape[1:3]) if size is None else size)
    is_train, is_known = np.arange(len(given)) < train, given != UNKNOWN
    classes = np.unique(given[is_known])
    parts = (
        np.flatnonzero(is_train & is_known),
        np.flatnonzero(is_train & ~is_known),
        NONE,
        np.flatnonzero(~is_train & is_known),
    )
    mean, std = mean_std(pixels, np.flatnonzero(is_train))
    return DataSet(
        name=name,
        classes=tuple(str(c) for c in classes),
        images=pixels,
        labels=np.where(is_known, np.searchsorted(classes, given), UNKNOWN),
        parts=parts,
        files=part_by_part({"train": train, "test": len(given) - train})[0],
        mean=mean,
        std=std,
        given_labels=True,
    )


def read(path: Path, size: int | None = None) -> DataSet:
    """An .npz file with `images` and `labels`, and `test_images` and `test_labels` if there are."""
    try:
        arrays = read_npz(path)
    except ValueError as error:
        raise DataError(
            f"{path} cannot be read: it is damaged or not an .npz file of plain arrays ({error}). "
            "Write it with `numpy.savez`."
        ) from None
    if not {"images", "labels"} <= arrays.keys():
        hint = " MedMNIST's files are read by name." if "train_images" in arrays else ""
        raise DataError(
            f"{path} needs the arrays images and labels, found {', '.join(arrays)}.{hint}"
        )
    test = arrays.get("test_images"), arrays.get("test_labels")
    return from_arrays(arrays["images"], arrays["labels"], *test, size, path.stem)


def read_digits(name: str, root: Path | None, size: int | None, *_: object) -> DataSet:
    """scikit-learn's 1,797 handwritten digits, grey as RGB: real images that need no network."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    bunch = load_digits()
    labels = bunch.target.astype(np.int64)
    grey = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    order = np.random.RandomState(0).permutation(len(labels))
    test = np.sort(np.concatenate([order[labels[order] == c][:DIGITS_TEST] for c in range(10)]))
    train = np.setdiff1d(np.arange(len(labels)), test)
    return DataSet(
        name=name,
        classes=tuple("0123456789"),
        images=resized(np.repeat(grey[..., None], 3, axis=-1), size or DIGITS_SIDE),
        labels=labels,
        parts=(train, NONE, NONE, test),
        files=[f"digits/{i}" for i in range(len(labels))],
        mean=(0.305, 0.305, 0.305),  # of the training part, as is std
        std=(0.376, 0.376, 0.376),
    )


def _pixels(images: npt.NDArray[Any], name: str) -> Pixels:
    """(N, H, W, 3) bytes."""
    images = np.asarray(images)
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or images.shape[-1] not in (1, 3) or 0 in images.shape:
        raise DataError(f"{name} must be (N, H, W) or (N, H, W, 1 or 3), got {images.shape}.")
    if np.issubdtype(images.dtype, np.floating):
        if not (np.isfinite(images).all() and images.min() >= 0 and images.max() <= 1):
            raise DataError(
                f"{name} are floats and must be in 0 … 1. Divide them by "
                "the largest value that they can have, such as 255."
            )
        images = np.rint(images * 255).astype(np.uint8)
    if images.dtype != np.uint8:
        raise DataError(f"{name} must be bytes (uint8) or floats in 0 … 1, got {images.dtype}.")
    return np.broadcast_to(images, (*images.shape[:3], 3))


def _labels(labels: npt.NDArray[Any], count: int, name: str) -> Indices:
    labels = np.asarray(labels)
    if labels.shape != (count,) or not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"{name} must be {count} integers, one per image; got {labels.dtype} {labels.shape}."
        )
    if labels.min() < UNKNOWN:
        raise DataError(f"{name} must be 0 or more, or {UNKNOWN} for unlabelled images.")
    return labels.astype(np.int64)
