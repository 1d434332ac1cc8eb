"""ImageNet with the labels of 1 % or 10 % of its training images, as SimCLR's lists name them."""

from pathlib import Path

import numpy as np

from ..errors import DataError
from .archives import data_root
from .bulk import decode_all
from .dataset import NONE, DataSet, OnProgress
from .decode import SUFFIXES

SIDE = 224
LISTS = "https://github.com/google-research/simclr/tree/master/imagenet_subsets"
ADVICE = (
    "ImageNet is at https://image-net.org/download (an account is needed): put its images into "
    "train/WNID/ and val/WNID/."
)


def read(name: str, root: Path | None, size: int | None, progress: OnProgress | None) -> DataSet:
    """Classes are WordNet's numbers; the pool is the training part, the test `val`."""
    folder = data_root(root)
    path = next((p for p in (folder, folder / "imagenet") if (p / "train").is_dir()), None)
    if path is None:
        raise DataError(f"{name} not found in {folder} (looked for train, imagenet). {ADVICE}")
    classes = sorted(entry.name for entry in (path / "train").iterdir() if entry.is_dir())
    train, test = (_files(path, part, classes) for part in ("train", "val"))
    listed = _listed(path, f"{name.removeprefix('imagenet-')}.txt", train)
    files = train + test
    decoded = decode_all([path / file for file in files], size or SIDE, True, progress)
    for i, reason in decoded.unreadable:
        raise DataError(f"{path / files[i]} cannot be read: {reason}. Unpack it again. {ADVICE}")
    is_listed = np.array([file.rpartition("/")[2] in listed for file in train])
    return DataSet(
        name=name,
        classes=tuple(classes),
        images=decoded.images,
        labels=np.searchsorted(classes, [file.split("/")[1] for file in files]).astype(np.int64),
        parts=(
            np.flatnonzero(is_listed),
            np.flatnonzero(~is_listed),
            NONE,
            np.arange(len(train), len(files)),
        ),
        files=files,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        given_labels=True,
        digests=decoded.digests,
        original_sizes=decoded.sizes,
        checksums="none are published for the unpacked images; every listed image is there",
    )


def _files(path: Path, part: str, classes: list[str]) -> list[str]:
    """The images of a part, by class and then by name; every class must have some."""
    files = []
    for c in classes:
        found = sorted(
            f"{part}/{c}/{file.name}"
            for file in (path / part / c).glob("*")
            if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")
        )
        if not found:
            raise DataError(f"{path / part / c} has no images. {ADVICE}")
        files += found
    return files


def _listed(path: Path, name: str, train: list[str]) -> set[str]:
    """The names on a list, each of which must be a training image."""
    place = next((p for p in (path / name, path / "imagenet_subsets" / name) if p.is_file()), None)
    if place is None:
        raise DataError(f"{path / name} is missing. Download it from {LISTS}.")
    names = {*place.read_text(encoding="utf-8", errors="replace").split()}
    if missing := names - {file.rpartition("/")[2] for file in train}:
        raise DataError(
            f"{place} names {len(missing)} of {len(names)} images that are not in {path / 'train'},"
            f" such as {min(missing)[:40]}. Download the list again from {LISTS}, or the images: "
            f"{ADVICE}"
        )
    if not names:
        raise DataError(f"{place} is empty. Download it again from {LISTS}.")
    return names
