"""The split of a run on its images of today: some were added, removed or relabelled since."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..storage.spreadsheet import read_rows
from .checktext import counted
from .dataset import UNKNOWN, DataSet, Indices, Split
from .splitfile import ROLES, image_hashes, read_split

LEFT = 0.5  # of a run's images: with fewer, these are not the images of the run


@dataclass(frozen=True)
class CurrentSplit:
    """All of `labelled` and `validation` have a label, whatever has changed since the run."""

    split: Split
    labelled_since: Indices  # unless moved or new, these are in the pool
    new: int  # images that the run did not know
    gone: int  # images of the run that are no longer there, or not with the same pixels

    def lines(self) -> list[str]:
        """What has changed, for the user; nothing if nothing has."""
        told = [
            f"{counted(count, 'image is', 'images are')} {what}"
            for count, what in (
                (self.new, "new, and included here"),
                (self.gone, "missing or changed"),
            )
            if count
        ]
        return [f"Since the run: {'; '.join(told)}."] if told else []


def current_split(path: Path, data: DataSet, *, whole: bool) -> CurrentSplit:
    """The split that a run wrote, on the data of today.

    An image keeps its role if it still has its name and its pixels. One that was moved, as people
    do who sort images into class folders, is known by its pixels, and labelled if it is now. One
    that has lost its label is back in the pool. If the run took the `whole` folder, and did not
    draw from it, what is new there belongs to it as well.
    """
    named = {file: i for i, file in enumerate(data.files)}
    hashes = image_hashes(data)
    rows = [*read_rows(path, "image", "hash", "role", "label")]
    listed = {row["image"] for row in rows}
    learning = np.concatenate([data.part("train"), data.part("unlabelled")]).tolist()
    moved = {hashes[i]: i for i in learning if data.files[i] not in listed}
    has_label = data.labels != UNKNOWN
    roles: dict[str, dict[int, None]] = defaultdict(dict)
    labelled_since, gone = list[int](), set[str]()
    for row in rows:
        name, role = row["image"], row["role"]
        i = named.get(name)
        stays = i is not None and hashes[i] == row["hash"]
        i = i if stays else moved.get(row["hash"])
        if i is None:
            gone.add(name)
            continue
        if role == "unlabelled" and not row["label"] and has_label[i]:
            labelled_since.append(i)
            role = role if stays else "labelled"  # sorted into a class folder
        lost = role in ("labelled", "validation") and not has_label[i]
        roles["unlabelled" if lost else role][i] = None
    if len(gone) > (1 - LEFT) * len(listed):
        read_split(path, data)  # says which image is missing
    known = {i for images in roles.values() for i in images}
    new = [i for i in learning if i not in known] if whole else []
    for i in new:
        roles["labelled" if has_label[i] else "unlabelled"][i] = None
    split = Split(**{role: np.array([*roles[role]], np.int64) for role in ROLES})
    labelled_since += [i for i in new if has_label[i]]
    return CurrentSplit(split, np.array(labelled_since, np.int64), len(new), len(gone))
