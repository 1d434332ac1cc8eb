"""The data sets by name. Importing this reads nothing; `load` does."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ..errors import UsageError
from ..storage.paths import path_of
from .dataset import UNKNOWN, DataSet, Progress, Split, shares
from .splitfile import read_split, write_split
from .splits import SplitPlan, make_split

__all__ = [
    "DATASETS",
    "UNKNOWN",
    "DataEntry",
    "DataSet",
    "Progress",
    "Split",
    "SplitPlan",
    "load",
    "make_split",
    "own_path",
    "read_split",
    "shares",
    "write_split",
]

ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")


@dataclass(frozen=True)
class DataEntry:
    """A named data set: what it is, who reads it, and the split used when none is asked for."""

    summary: str
    reader: str  # "module:function" of this package, called with (root, size, progress)
    plan: SplitPlan


DATASETS: dict[str, DataEntry] = {
    "digits": DataEntry(
        "1,797 handwritten digits, 8×8, embedded in scikit-learn",
        "digits:read",
        SplitPlan(labels_per_class=4),
    ),
    "cifar10": DataEntry(
        "CIFAR-10: 60,000 photographs of 10 things, 32×32",
        "cifar:read10",
        SplitPlan(labels_per_class=4),
    ),
    "cifar10-lt": DataEntry(
        "CIFAR-10 with long-tailed classes, γ = 100",
        "cifar:read10",
        SplitPlan(head_labelled=1500, head_unlabelled=3000, gamma=100, labelled_in_pool=False),
    ),
    "cifar100": DataEntry(
        "CIFAR-100: 60,000 photographs of 100 things, 32×32",
        "cifar:read100",
        SplitPlan(labels_per_class=2),
    ),
    "stl10": DataEntry(
        "STL-10: 113,000 photographs, 13,000 of them of 10 known things, 96×96",
        "stl10:read",
        SplitPlan(labels_per_class=4),
    ),
    "eurosat": DataEntry(
        "EuroSAT: 27,000 satellite images of 10 land uses, 64×64 read at 32×32",
        "eurosat:read",
        SplitPlan(labels_per_class=2),
    ),
}


def load(
    name: str | Path,
    root: Path | None = None,
    size: int | None = None,
    progress: Progress | None = None,
    labels: Path | None = None,
) -> DataSet:
    """Read a data set by its name, or a person's own folder, CSV or .npz file by its path.

    `root` is where the files of a named set lie, `size` the side of the images in pixels (None:
    the set's own), `progress` is told how many images are done, and `labels` is a table that adds
    to a person's own labels.
    """
    if labels is not None:
        from .labels import apart, with_labels

        apart(labels, Path(name))
        return with_labels(load(name, root, size, progress), labels)
    if str(name) in DATASETS:
        module, function = DATASETS[str(name)].reader.split(":")
        reader = getattr(import_module(f"{__name__}.{module}"), function)
        data: DataSet = reader(root, size, progress)
        return data
    path = own_path(name)
    if path.suffix == ".npz":
        from . import arrays

        return arrays.read(path, size)
    from . import folder

    return folder.read(path, size, progress)


def own_path(name: str | Path) -> Path:
    """Where a person's own images lie; an error if that is neither a place nor a data set."""
    path = path_of(name, "data takes a name, a folder or a file")
    if not os.path.exists(path):  # unlike Path.exists, false for a name no file can have
        near = difflib.get_close_matches(str(name), DATASETS, n=1)
        hint = f" Perhaps you meant {near[0]}." if near else f" Known: {', '.join(DATASETS)}."
        raise UsageError(f"--data {name} is neither a data set's name nor a folder.{hint}")
    from .astray import refuse_run
    from .decode import SUFFIXES  # and with it Pillow, which not every command needs

    if path.is_file() and path.suffix.lower() in SUFFIXES:
        raise UsageError(f"--data {name} is one image. Give the folder that holds the classes.")
    if path.is_file() and path.suffix.lower() in ARCHIVES:
        raise UsageError(f"--data {name} is an archive. Unpack it, and give the folder.")
    refuse_run(path)
    return path
