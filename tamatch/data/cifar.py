"""CIFAR-10 and CIFAR-100, python and binary versions, from the archive or its unpacked folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DataError
from .archives import Archive, locate, members, verify
from .dataset import DataSet, Indices, Pixels, Progress
from .decode import resized
from .pickles import load_dict

SIDE = 32
PIXELS = 3 * SIDE * SIDE
HOME = "https://www.cs.toronto.edu/~kriz/"


@dataclass(frozen=True)
class Version:
    """One of the publisher's two forms of a data set."""

    folder: str
    archive: Archive
    train: tuple[str, ...]
    test: str
    names: str  # the file with the class names
    md5: Mapping[str, str]  # of the unpacked files, where they are published


@dataclass(frozen=True)
class Cifar:
    """What tells CIFAR-10 and CIFAR-100 apart."""

    name: str
    label_key: str  # in the python version
    names_key: str
    label_bytes: int  # before each image of the binary version; the last one is the label
    train_per_class: int
    test_per_class: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    python: Version
    binary: Version


CIFAR10 = Cifar(
    name="cifar10",
    label_key="labels",
    names_key="label_names",
    label_bytes=1,
    train_per_class=5000,
    test_per_class=1000,
    mean=(0.485, 0.456, 0.406),  # ImageNet's: the benchmark normalises so
    std=(0.229, 0.224, 0.225),
    python=Version(
        folder="cifar-10-batches-py",
        archive=Archive(
            "cifar-10-python.tar.gz",
            "c58f30108f718f92721af3b95e74349a",
            HOME + "cifar-10-python.tar.gz",
        ),
        train=tuple(f"data_batch_{k}" for k in range(1, 6)),
        test="test_batch",
        names="batches.meta",
        md5={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
        },
    ),
    binary=Version(
        folder="cifar-10-batches-bin",
        archive=Archive(
            "cifar-10-binary.tar.gz",
            "c32a1d4ab5d03f1284b67883e8d87530",
            HOME + "cifar-10-binary.tar.gz",
        ),
        train=tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
        test="test_batch.bin",
        names="batches.meta.txt",
        md5={},
    ),
)

CIFAR100 = Cifar(
    name="cifar100",
    label_key="fine_labels",
    names_key="fine_label_names",
    label_bytes=2,
    train_per_class=500,
    test_per_class=100,
    mean=(129.3 / 255, 124.1 / 255, 112.4 / 255),
    std=(68.2 / 255, 65.4 / 255, 70.4 / 255),
    python=Version(
        folder="cifar-100-python",
        archive=Archive(
            "cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            HOME + "cifar-100-python.tar.gz",
        ),
        train=("train",),
        test="test",
        names="meta",
        md5={
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "7973b15100ade9c7d40fb424638fde48",
        },
    ),
    binary=Version(
        folder="cifar-100-binary",
        archive=Archive(
            "cifar-100-binary.tar.gz",
            "03b5dce01913d631647c71ecec9e9cb8",
            HOME + "cifar-100-binary.tar.gz",
        ),
        train=("train.bin",),
        test="test.bin",
        names="fine_label_names.txt",
        md5={},
    ),
)


def read10(root: Path | None, size: int | None, progress: Progress | None = None) -> DataSet:
    """CIFAR-10: 50,000 training and 10,000 test images of 10 classes."""
    return read(CIFAR10, root, size)


def read100(root: Path | None, size: int | None, progress: Progress | None = None) -> DataSet:
    """CIFAR-100: 50,000 training and 10,000 test images of 100 classes."""
    return read(CIFAR100, root, size)


def read(cifar: Cifar, root: Path | None, size: int | None) -> DataSet:
    """Read whichever version is there, in the publisher's order: training first, then test."""
    versions = (cifar.python, cifar.binary)
    path = locate(
        root,
        cifar.name,
        [place for v in versions for place in (v.folder, v.archive.file)],
        cifar.python.archive,
    )
    version = next(v for v in versions if path.name in (v.folder, v.archive.file))
    checksums = _check_files(path, version)
    batches = (*version.train, version.test)
    found = {name: file.read() for name, file in members(path, [*batches, version.names])}
    decode = _python_batch if version is cifar.python else _binary_batch
    parts = [decode(cifar, found[name], f"{path}: {name}") for name in batches]
    labels = np.concatenate([y for _, y in parts])
    train = sum(len(y) for _, y in parts[:-1])
    classes = _class_names(cifar, version, found[version.names])
    for part, expected in (
        (labels[:train], cifar.train_per_class),
        (labels[train:], cifar.test_per_class),
    ):
        _check_counts(path, part, expected, len(classes))
    empty = np.empty(0, np.int64)
    test = len(labels) - train
    return DataSet(
        name=cifar.name,
        classes=classes,
        images=resized(np.concatenate([x for x, _ in parts]), SIDE if size is None else size),
        labels=labels,
        parts=(np.arange(train), empty, empty, np.arange(train, len(labels))),
        files=[f"train/{i}" for i in range(train)] + [f"test/{i}" for i in range(test)],
        mean=cifar.mean,
        std=cifar.std,
        checksums=checksums,
    )


def _check_files(path: Path, version: Version) -> str:
    if path.is_file():
        verify(path, [version.archive.md5], version.archive)
        return "the archive has the published MD5"
    for name in (*version.train, version.test, version.names):
        if name in version.md5:
            verify(path / name, [version.md5[name]], version.archive)
        elif not (path / name).is_file():
            verify(path / name, [], version.archive)
    if version.md5:
        return "every file has the published MD5"
    return "none are published for the unpacked binary files; their class counts are right"


def _check_counts(path: Path, labels: Indices, expected: int, classes: int) -> None:
    counts = np.bincount(labels, minlength=classes)
    if len(counts) != classes or (counts != expected).any():
        raise DataError(
            f"{path} is not the published data: {expected} images of each of {classes} classes are "
            f"expected, found {counts.min()} to {counts.max()} of {len(counts)}. Unpack it again."
        )


def _planes_last(flat: Pixels) -> Pixels:
    """Rows of three colour planes to (N, 32, 32, 3)."""
    return flat.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)


def _python_batch(cifar: Cifar, content: bytes, where: str) -> tuple[Pixels, Indices]:
    batch = load_dict(content, where)
    return _planes_last(batch["data"]), np.asarray(batch[cifar.label_key], np.int64)


def _binary_batch(cifar: Cifar, content: bytes, where: str) -> tuple[Pixels, Indices]:
    if len(content) % (cifar.label_bytes + PIXELS):
        raise DataError(f"{where} is cut off: {len(content)} bytes are no whole number of images.")
    rows = np.frombuffer(content, np.uint8).reshape(-1, cifar.label_bytes + PIXELS)
    labels = rows[:, cifar.label_bytes - 1].astype(np.int64)
    return _planes_last(rows[:, cifar.label_bytes :]), labels


def _class_names(cifar: Cifar, version: Version, content: bytes) -> tuple[str, ...]:
    if version is cifar.python:
        names = load_dict(content, version.names)[cifar.names_key]
        return tuple(name.decode("ascii") for name in names)
    return tuple(content.decode("ascii").split())
