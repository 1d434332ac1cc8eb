"""Food-101 from the publisher's folder: the lists in `meta` say which images train and test."""

from collections import Counter
from pathlib import Path

import numpy as np

from ..errors import DataError
from .archives import FOOD101, locate
from .bulk import decode_all
from .dataset import NONE, DataSet, OnProgress

SIDE = 224
COUNTS = {"train": 750, "test": 250}  # images of each class


def read(name: str, root: Path | None, size: int | None, progress: OnProgress | None) -> DataSet:
    """Classes by name; 750 training and 250 test images of each, in the order of the lists."""
    path = locate(root, ["food-101"], FOOD101)
    listed = {part: _lines(path, f"meta/{part}.txt") for part in COUNTS}
    classes = sorted({line.partition("/")[0] for line in listed["train"]})
    names = [line.partition("/")[0] for lines in listed.values() for line in lines]
    labels = np.searchsorted(classes, names).astype(np.int64)
    for part, count in COUNTS.items():
        if Counter(line.partition("/")[0] for line in listed[part]) != dict.fromkeys(
            classes, count
        ):
            raise _not_published(
                path, f"meta/{part}.txt does not list {count} images of each class"
            )
    files = [f"images/{line}.jpg" for lines in listed.values() for line in lines]
    decoded = decode_all([path / file for file in files], size or SIDE, True, progress)
    for i, reason in decoded.unreadable:
        raise _not_published(path, f"{files[i]} cannot be read: {reason}")
    train = len(listed["train"])
    return DataSet(
        name=name,
        classes=tuple(classes),
        images=decoded.images,
        labels=labels,
        parts=(np.arange(train), NONE, NONE, np.arange(train, len(files))),
        files=files,
        mean=(0.485, 0.456, 0.406),  # ImageNet's, as the benchmark has it
        std=(0.229, 0.224, 0.225),
        digests=decoded.digests,
        original_sizes=decoded.sizes,
        checksums="none are published for the unpacked images; the lists have the right counts",
    )


def _lines(path: Path, name: str) -> list[str]:
    try:
        return (path / name).read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        raise _not_published(path, f"{name} is missing or damaged") from None


def _not_published(path: Path, why: str) -> DataError:
    return DataError(f"{path} is not the published Food-101: {why}. " + FOOD101.advice(path.parent))
