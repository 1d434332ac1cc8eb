"""CIFAR-10 and CIFAR-100, python and binary versions, from the archive or its unpacked folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..errors import DataError
from .archives import locate, members, verify
from .cifar_versions import CIFAR10, CIFAR100, Cifar, Version
from .dataset import DataSet, Indices, OnProgress, Pixels
from .decode import resized
from .pickles import load_dict

SIDE = 32
PIXELS = 3 * SIDE * SIDE


def read10(root: Path | None, size: int | None, progress: OnProgress | None = None) -> DataSet:
    """CIFAR-10: 50,000 training and 10,000 test images of 10 classes."""
    return read(CIFAR10, root, size)


def read100(root: Path | None, size: int | None, progress: OnProgress | None = None) -> DataSet:
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
            f"{path} is not the published data: expected {expected} images of each of {classes} "
            f"classes, found {counts.min()} to {counts.max()} of {len(counts)}. Unpack it again."
        )


def _planes_last(flat: Pixels) -> Pixels:
    """Rows of three colour planes to (N, 32, 32, 3)."""
    return flat.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)


def _python_batch(cifar: Cifar, content: bytes, where: str) -> tuple[Pixels, Indices]:
    batch = load_dict(content, where)
    return _planes_last(batch["data"]), np.asarray(batch[cifar.label_key], np.int64)


def _binary_batch(cifar: Cifar, content: bytes, where: str) -> tuple[Pixels, Indices]:
    if len(content) % (cifar.label_bytes + PIXELS):
        raise DataError(
            f"{where} is truncated: {len(content)} bytes is not a whole number of images. Unpack "
            "it again."
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, cifar.label_bytes + PIXELS)
    labels = rows[:, cifar.label_bytes - 1].astype(np.int64)
    return _planes_last(rows[:, cifar.label_bytes :]), labels


def _class_names(cifar: Cifar, version: Version, content: bytes) -> tuple[str, ...]:
    if version is cifar.python:
        names = load_dict(content, version.names)[cifar.names_key]
        return tuple(name.decode("ascii") for name in names)
    return tuple(content.decode("ascii").split())
