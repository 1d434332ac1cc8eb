"""scikit-learn's 1,797 handwritten digits: real images inside a dependency, no network needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .dataset import DataSet, OnProgress
from .decode import resized

TEST_PER_CLASS = 50  # 500 test images, the same for every seed
SIDE = 8


def read(
    root: Path | None = None, size: int | None = None, progress: OnProgress | None = None
) -> DataSet:
    """The 8×8 grey digits as RGB."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    bunch = load_digits()
    labels = bunch.target.astype(np.int64)
    grey = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    order = np.random.RandomState(0).permutation(len(labels))
    test = np.sort(np.concatenate([order[labels[order] == c][:TEST_PER_CLASS] for c in range(10)]))
    train = np.setdiff1d(np.arange(len(labels)), test)
    empty = np.empty(0, np.int64)
    return DataSet(
        name="digits",
        classes=tuple("0123456789"),
        images=resized(np.repeat(grey[..., None], 3, axis=-1), SIDE if size is None else size),
        labels=labels,
        parts=(train, empty, empty, test),
        files=[f"digits/{i}" for i in range(len(labels))],
        mean=(0.305, 0.305, 0.305),  # of the training part, as is std
        std=(0.376, 0.376, 0.376),
    )
