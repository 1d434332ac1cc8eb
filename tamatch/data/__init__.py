"""The data sets by name. Importing this reads nothing; `load` does."""

import difflib
import os
from importlib import import_module
from pathlib import Path

from ..errors import UsageError, perhaps
from ..storage.files import path_of
from .dataset import UNKNOWN, DataSet, OnProgress, Split, shares
from .labels import refuse_table_inside, with_labels
from .splitfile import read_split, write_split
from .splits import Past, SplitPlan, make_split, make_split_again

__all__ = [
    "DATASETS", "UNKNOWN", "DataSet", "OnProgress", "Past", "Split", "SplitPlan", "known_sets",
    "load", "make_split", "make_split_again", "own_path", "read_split", "shares", "write_split",
]  # fmt: skip

ARCHIVE_SUFFIXES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")

# "module:function" of this package, which is called with (name, root, size, progress)
READERS = {
    "arrays:read_digits": ("digits",),
    "cifar:read_named": ("cifar10", "cifar10-lt", "cifar10-tuned", "cifar100", "cifar100-classic"),
    "stl10:read": ("stl10", "stl10-classic"),
    "eurosat:read": ("eurosat", "eurosat-tuned"),
    "svhn:read": ("svhn", "svhn-extra"),
    "food101:read": ("food101",),
    "imagenet:read": ("imagenet-1percent", "imagenet-10percent"),
    "medmnist:read": (
        "pathmnist", "dermamnist", "octmnist", "pneumoniamnist", "retinamnist", "breastmnist",
        "bloodmnist", "tissuemnist", "organamnist", "organcmnist", "organsmnist",
    ),
    "medmnist:refuse": ("chestmnist",),
}  # fmt: skip
DATASETS = {name: reader for reader, names in READERS.items() for name in names}


def load(
    name: str | Path,
    root: Path | None = None,
    size: int | None = None,
    progress: OnProgress | None = None,
    labels: Path | None = None,
    *,
    loose: bool = False,
) -> DataSet:
    """Read a data set by its name, or a person's own folder, CSV or .npz file by its path.

    `root` is where the files of a named set lie, `size` the side of the images in pixels (None:
    the set's own), `progress` is told how many images are done, and `labels` is a table that adds
    to a person's own labels. With `loose`, a folder may hold images in no class folder, unlabelled.
    """
    if labels is not None:
        refuse_table_inside(labels, Path(name))
        return with_labels(load(name, root, size, progress, loose=loose), labels, Path(name))
    if str(name) in DATASETS:
        module, function = DATASETS[str(name)].split(":")
        reader = getattr(import_module(f"{__name__}.{module}"), function)
        data: DataSet = reader(str(name), root, size, progress)
        return data
    path = own_path(name)
    if path.suffix == ".npz":
        from . import arrays

        return arrays.read(path, size)
    from . import folder

    return folder.read(path, size, progress, loose=loose)


def known_sets() -> str:
    """The names of all sets, those of MedMNIST by one of them."""
    names = [name for name, reader in DATASETS.items() if not reader.startswith("medmnist:")]
    return f"{', '.join(names)}, and MedMNIST's, such as pathmnist"


def perhaps_beside(path: Path) -> str:
    """A sentence with the folder that a mistyped path may have meant; empty if none is similar.

    It has to be very similar: names of folders are words of any kind.
    """
    try:
        beside = {folder.name: folder for folder in path.parent.iterdir() if folder.is_dir()}
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.8)
    return f" Perhaps you meant {beside[near[0]]}." if near else ""


def own_path(name: str | Path) -> Path:
    """Where a person's own images lie; an error if that is neither a place nor a data set."""
    path = path_of(name, "data takes a name, a folder or a file")
    if not os.path.exists(path):  # unlike Path.exists, false for a name no file can have
        word, near = str(name), perhaps_beside(path)
        if os.path.basename(word) != word or word.startswith((".", "~")):  # no name of a data set
            home = " Only a shell knows what ~ stands for: give the whole path."
            hint = home if word.startswith("~") else near
            raise UsageError(f"--data {name}: there is no such folder or file.{hint}")
        hint = perhaps(word, DATASETS, most=1) or near or f" Known: {known_sets()}."
        raise UsageError(f"--data {name} is neither a known data set nor a folder.{hint}")
    from .decode import SUFFIXES  # and with it Pillow, which not every command needs
    from .folder import refuse_run

    if path.is_file() and path.suffix.lower() in SUFFIXES:
        raise UsageError(
            f"--data {name} is a single image. Give the folder that contains the class folders."
        )
    if path.is_file() and path.suffix.lower() in ARCHIVE_SUFFIXES:
        raise UsageError(f"--data {name} is an archive. Unpack it and give the folder.")
    refuse_run(path)
    return path
