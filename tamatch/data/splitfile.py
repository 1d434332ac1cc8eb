"""split.csv of a run: which image played which role, and what it looked like."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..storage.spreadsheet import restore, write_table
from .dataset import UNKNOWN, DataSet, Indices, Split

COLUMNS = ("image", "hash", "role", "label")
HASH = 16  # hexadecimal digits
ROLES = ("labelled", "unlabelled", "validation", "test")


def image_hashes(data: DataSet) -> list[str]:
    """A short SHA-256 of each image's pixels as the net sees them."""
    return [row.tobytes().hex()[:HASH] for row in data.image_digests()]


def write_split(path: Path, data: DataSet, split: Split) -> None:
    """One row an image and role; an image that is labelled and in the pool has two.

    The label is the one known of the image: with the role `unlabelled`, the run did not see it.
    """
    hashes = image_hashes(data)
    rows = []
    for role in ROLES:
        for i in getattr(split, role).tolist():
            label = data.labels[i]
            known = data.classes[label] if label != UNKNOWN else ""
            rows.append((data.files[i], hashes[i], role, known))
    write_table(path, COLUMNS, rows)


def read_split(path: Path, data: DataSet) -> Split:
    """The split that a run wrote, if every image of it is still there and the same."""
    position = {file: i for i, file in enumerate(data.files)}
    found: dict[str, list[int]] = defaultdict(list)
    hashes = image_hashes(data)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                name = restore(row["image"])
                i = position.get(name)
                if i is None:
                    raise DataError(f"{path} lists {name}, which {data.name} no longer has.")
                if hashes[i] != row["hash"]:
                    raise DataError(f"{path}: the image {name} has changed since.")
                found[row["role"]].append(i)
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is no split.csv: {error!r}") from None
    return Split(**{role: _indices(found[role]) for role in ROLES})


def learnt_from(path: Path) -> set[str]:
    """The hashes of the labelled images in a split.csv; none if it cannot be read."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return {row["hash"] for row in csv.DictReader(file) if row["role"] == "labelled"}
    except (OSError, KeyError, UnicodeDecodeError, csv.Error):
        return set()


def _indices(rows: Iterable[int]) -> Indices:
    return np.array(list(rows), np.int64)
