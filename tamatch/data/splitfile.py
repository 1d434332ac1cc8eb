"""split.csv of a run: which image played which role, and what it looked like."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..storage.spreadsheet import read_rows, write_table
from .dataset import UNKNOWN, DataSet, Indices, Split

COLUMNS = ("image", "hash", "role", "label")
HASH = 16  # hexadecimal digits
ROLES = ("labelled", "unlabelled", "validation", "test")


def image_hashes(data: DataSet) -> list[str]:
    """A short SHA-256 of each image's pixels as the net sees them."""
    return [row.tobytes().hex()[:HASH] for row in data.image_digests()]


def write_split(path: Path, data: DataSet, split: Split) -> None:
    """One row per image and role; an image that is labelled and in the pool has two.

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
    for row in read_rows(path, "image", "hash", "role"):
        name = row["image"]
        i = position.get(name)
        if i is None:
            raise DataError(f"{path} lists {name}, which is no longer in {data.name}.")
        if hashes[i] != row["hash"]:
            raise DataError(f"{path}: the image {name} has changed since the run.")
        found[row["role"]].append(i)
    return Split(**{role: _indices(found[role]) for role in ROLES})


def still_there(path: Path, data: DataSet, role: str) -> tuple[Indices, int]:
    """The images of a role that have a label and the same pixels today, and how many there were."""
    position = {file: i for i, file in enumerate(data.files)}
    hashes = image_hashes(data)
    found, listed = [], 0
    for row in read_rows(path, "image", "hash", "role"):
        if row["role"] == role:
            listed += 1
            i = position.get(row["image"])
            if i is not None and hashes[i] == row["hash"] and data.labels[i] != UNKNOWN:
                found.append(i)
    return _indices(found), listed


def listed_in(path: Path, column: str) -> dict[str, set[str]]:
    """The `image` or the `hash` of all images of each role."""
    found: dict[str, set[str]] = {role: set() for role in ROLES}
    for row in read_rows(path, column, "role"):
        found.setdefault(row["role"], set()).add(row[column])
    return found


def _indices(rows: Iterable[int]) -> Indices:
    return np.array(list(rows), np.int64)
