"""split.csv of a run: the role of each image, and a hash of its pixels."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..storage.spreadsheet import read_rows, write_table
from .dataset import UNKNOWN, DataSet, Indices, Split

COLUMNS = ("image", "hash", "role", "label")
HASH = 16  # hexadecimal digits
LEFT = 0.5  # of a run's images: with fewer, these are not the images of the run
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
    found: dict[str, list[int]] = defaultdict(list)
    for row, i in _matched(path, data, image_hashes(data)):
        name = row["image"]
        if i is None and name in data.files:
            raise DataError(f"{path}: the image {name} has changed since the run.")
        if i is None:
            raise DataError(f"{path} lists {name}, which is no longer in {data.name}.")
        found[row["role"]].append(i)
    return Split(**{role: _indices(found[role]) for role in ROLES})


def still_there(path: Path, data: DataSet, role: str) -> tuple[Indices, int]:
    """The images of a role that have a label and the same pixels today, and how many there were."""
    listed = [i for row, i in _matched(path, data, image_hashes(data)) if row["role"] == role]
    found = (i for i in listed if i is not None and data.labels[i] != UNKNOWN)
    return _indices(found), len(listed)


def listed_in(path: Path, column: str) -> dict[str, set[str]]:
    """The `image` or the `hash` of all images of each role."""
    found: dict[str, set[str]] = {role: set() for role in ROLES}
    for row in read_rows(path, column, "role"):
        found.setdefault(row["role"], set()).add(row[column])
    return found


@dataclass(frozen=True)
class CurrentSplit:
    """A run's split of the images of today; all labelled and validation images have a label."""

    split: Split
    labelled_since: Indices  # unless moved or new, these are in the pool
    new: int  # images that the run did not know
    gone: int  # images of the run that are no longer there, or not with the same pixels

    def lines(self) -> list[str]:
        """What has changed, for the user; nothing if nothing has."""
        changes = ((self.new, "new, and included here"), (self.gone, "missing or changed"))
        told = [f"{n:,} image{' is' if n == 1 else 's are'} {what}" for n, what in changes if n]
        return [f"Since the run: {'; '.join(told)}."] if told else []


def current_split(path: Path, data: DataSet, *, whole: bool) -> CurrentSplit:
    """The split that a run wrote, on the data of today.

    An image with the same name and pixels keeps its role. One that was moved, such as into a class
    folder, is recognised by its pixels, and is labelled if it has a label now. One that has lost
    its label returns to the pool. If the run used the `whole` folder, instead of drawing from it,
    new images are added.
    """
    hashes = image_hashes(data)
    rows = [*_matched(path, data, hashes, "label")]
    listed = {row["image"] for row, _ in rows}
    learning = np.concatenate([data.part("train"), data.part("unlabelled")]).tolist()
    moved = {hashes[i]: i for i in learning if data.files[i] not in listed}
    has_label = data.labels != UNKNOWN
    roles: dict[str, dict[int, None]] = defaultdict(dict)
    labelled_since, gone = list[int](), set[str]()
    for row, own in rows:
        role, i = row["role"], moved.get(row["hash"]) if own is None else own
        if i is None:
            gone.add(row["image"])
            continue
        if role == "unlabelled" and not row["label"] and has_label[i]:
            labelled_since.append(i)
            role = "labelled" if own is None else role  # sorted into a class folder
        lost = role in ("labelled", "validation") and not has_label[i]
        roles["unlabelled" if lost else role][i] = None
    if len(gone) > (1 - LEFT) * len(listed):
        read_split(path, data)  # says which image is missing
    known = {i for images in roles.values() for i in images}
    new = [i for i in learning if i not in known] if whole else []
    for i in new:
        roles["labelled" if has_label[i] else "unlabelled"][i] = None
    split = Split(**{role: _indices(roles[role]) for role in ROLES})
    labelled_since += [i for i in new if has_label[i]]
    return CurrentSplit(split, _indices(labelled_since), len(new), len(gone))


def _matched(
    path: Path, data: DataSet, hashes: list[str], *more_columns: str
) -> Iterator[tuple[dict[str, str], int | None]]:
    """Each line of a split file, and its image, if one of this name has the same pixels today."""
    position = {file: i for i, file in enumerate(data.files)}
    for row in read_rows(path, "image", "hash", "role", *more_columns):
        i = position.get(row["image"])
        yield row, i if i is not None and hashes[i] == row["hash"] else None


def _indices(rows: Iterable[int]) -> Indices:
    return np.array(list(rows), np.int64)
