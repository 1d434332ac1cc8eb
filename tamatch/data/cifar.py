"""CIFAR-10 and CIFAR-100, python and binary versions, from the archive or its unpacked folder."""

import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from . import archives
from .archives import Archive, locate, members, verify
from .dataset import NONE, Colour, DataSet, Indices, Pixels, part_by_part
from .decode import resized

SIDE = 32
PIXELS = 3 * SIDE * SIDE


@dataclass(frozen=True)
class Cifar:
    """What tells CIFAR-10 and CIFAR-100 apart."""

    name: str
    prefix: str  # of the keys of labels and class names in the python version
    label_bytes: int  # before each image of the binary version; the last one is the label
    train_per_class: int
    test_per_class: int
    mean: Colour
    std: Colour
    python: Archive  # whose files are training batches, the test batch and class names
    binary: Archive


CIFAR10 = Cifar(
    name="cifar10",
    prefix="",
    label_bytes=1,
    train_per_class=5000,
    test_per_class=1000,
    mean=(0.485, 0.456, 0.406),  # ImageNet's: the benchmark normalises so
    std=(0.229, 0.224, 0.225),
    python=archives.CIFAR10,
    binary=archives.CIFAR10_BINARY,
)

CIFAR100 = Cifar(
    name="cifar100",
    prefix="fine_",
    label_bytes=2,
    train_per_class=500,
    test_per_class=100,
    mean=(129.3 / 255, 124.1 / 255, 112.4 / 255),
    std=(68.2 / 255, 65.4 / 255, 70.4 / 255),
    python=archives.CIFAR100,
    binary=archives.CIFAR100_BINARY,
)


def read_named(name: str, root: Path | None, size: int | None, *_: object) -> DataSet:
    """The one of the two that a name means: it may also say which protocol is followed."""
    return read(CIFAR100 if name.startswith("cifar100") else CIFAR10, root, size)


def read(cifar: Cifar, root: Path | None, size: int | None) -> DataSet:
    """Read whichever version is there, in the publisher's order: training first, then test."""
    versions = (cifar.python, cifar.binary)
    places = [place for v in versions for place in (v.folder, v.file)]
    path = locate(root, places, cifar.python)
    version = next(v for v in versions if path.name in (v.folder, v.file))
    checksums = _check_files(path, version)
    found = {name: file.read() for name, file in members(path, [*version.files])}
    *batches, names = version.files
    if version is cifar.python:
        parts = [_python_batch(cifar, found[name], f"{path}: {name}") for name in batches]
        listed = load_dict(found[names], names)[f"{cifar.prefix}label_names"]
        classes = tuple(name.decode("ascii") for name in listed)
    else:
        parts = [_binary_batch(cifar, found[name], f"{path}: {name}") for name in batches]
        classes = tuple(found[names].decode("ascii").split())
    labels = np.concatenate([y for _, y in parts])
    tests = len(parts[-1][1])
    files, (train, test) = part_by_part({"train": len(labels) - tests, "test": tests})
    _check_counts(path, labels[train], cifar.train_per_class, len(classes))
    _check_counts(path, labels[test], cifar.test_per_class, len(classes))
    return DataSet(
        name=cifar.name,
        classes=classes,
        images=resized(np.concatenate([x for x, _ in parts]), size or SIDE),
        labels=labels,
        parts=(train, NONE, NONE, test),
        files=files,
        mean=cifar.mean,
        std=cifar.std,
        checksums=checksums,
    )


def _check_files(path: Path, version: Archive) -> str:
    """Verify the files; say what is known of their integrity."""
    if path.is_file():
        verify(path, [version.md5], version)
        return "the archive has the published MD5"
    for name, md5 in version.files.items():
        verify(path / name, [md5] if md5 else [], version)
    if all(version.files.values()):
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
    return _planes_last(batch["data"]), np.asarray(batch[f"{cifar.prefix}labels"], np.int64)


def _binary_batch(cifar: Cifar, content: bytes, where: str) -> tuple[Pixels, Indices]:
    if len(content) % (cifar.label_bytes + PIXELS):
        raise DataError(
            f"{where} is truncated: {len(content)} bytes is not a whole number of images. Unpack "
            "it again."
        )
    rows = np.frombuffer(content, np.uint8).reshape(-1, cifar.label_bytes + PIXELS)
    labels = rows[:, cifar.label_bytes - 1].astype(np.int64)
    return _planes_last(rows[:, cifar.label_bytes :]), labels


class _Dtype:
    """Stands for `numpy.dtype`; only its type string matters."""

    def __init__(self, kind: bytes = b"", *_: object) -> None:
        self.kind = kind

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """Stands for `numpy.ndarray`; keeps the state, and builds the array when asked."""

    def __init__(self, *_: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def to_numpy(self) -> Pixels:
        _version, shape, dtype, fortran, content = self.state
        if not isinstance(dtype, _Dtype) or dtype.kind != b"u1" or fortran:
            raise ValueError("the array is not made of bytes in C order")
        return np.frombuffer(content, np.uint8).reshape(shape)


_ALLOWED: dict[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
}


class _Unpickler(pickle.Unpickler):
    """Knows three names, all of them stand-ins defined here; every other one is refused."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def load_dict(content: bytes, where: str) -> dict[str, Any]:
    """The dictionary in a CIFAR batch, a Python 2 pickle, which is read without running anything.

    Its arrays become NumPy arrays, its strings bytes.
    """
    try:
        found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        return {
            key.decode("ascii"): value.to_numpy() if isinstance(value, _Array) else value
            for key, value in found.items()
        }
    except Exception as error:  # a doctored stream can raise anything
        raise DataError(f"{where} is not a CIFAR batch and was not read: {error}") from None
