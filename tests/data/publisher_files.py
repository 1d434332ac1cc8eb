"""Small files in the publishers' formats, with checksums to match."""

from __future__ import annotations

import hashlib
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tamatch.data.archives import Archive
from tamatch.data.cifar import Cifar


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def old_string(text: str) -> bytes:
    """A Python 2 string as its pickles hold it."""
    return b"U" + bytes([len(text)]) + text.encode()


def old_list(items: list[bytes]) -> bytes:
    return b"](" + b"".join(items) + b"e"


def old_bytes(pixels: np.ndarray) -> bytes:
    """A NumPy array of bytes as NumPy 1 pickled it under Python 2."""
    rows, columns = pixels.shape
    make = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
    shape = b"J" + struct.pack("<i", rows) + b"J" + struct.pack("<i", columns) + b"\x86"
    content = b"T" + struct.pack("<i", pixels.size) + pixels.tobytes()
    return make + b"(K\x01" + shape + kind + b"K\x00tb\x89" + content + b"tb"


def old_dict(entries: Mapping[str, bytes]) -> bytes:
    body = b"".join(old_string(key) + value for key, value in entries.items())
    return b"\x80\x02}(" + body + b"u."


def planes(images: np.ndarray) -> np.ndarray:
    """(N, 32, 32, 3) to rows of three colour planes."""
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def tar(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder, folder.name)


class MadeCifar:
    """A CIFAR of `per_class` training and 1 test image a class, written in both versions."""

    def __init__(self, kind: Cifar, classes: int, per_class: int) -> None:
        random = np.random.RandomState(7)
        self.names = [f"thing{c}" for c in range(classes)]
        self.labels = np.concatenate(
            [random.permutation(np.repeat(np.arange(classes), per_class)), np.arange(classes)]
        )
        self.images = random.randint(0, 256, (len(self.labels), 32, 32, 3)).astype(np.uint8)
        self.train = classes * per_class
        self.kind = replace(kind, train_per_class=per_class, test_per_class=1)

    def batches(self, version: Archive) -> dict[str, slice]:
        *train, test, _ = version.files
        step = self.train // len(train)
        own = {name: slice(i * step, (i + 1) * step) for i, name in enumerate(train)}
        return {**own, test: slice(self.train, None)}

    def write_python(self, root: Path) -> Path:
        version = self.kind.python
        folder = root / version.folder
        folder.mkdir(parents=True)
        for name, rows in self.batches(version).items():
            labels = old_list([b"K" + bytes([y]) for y in self.labels[rows]])
            data = old_bytes(planes(self.images[rows]))
            content = old_dict({"data": data, f"{self.kind.prefix}labels": labels})
            (folder / name).write_bytes(content)
        names = old_list([old_string(name) for name in self.names])
        (folder / [*version.files][-1]).write_bytes(
            old_dict({f"{self.kind.prefix}label_names": names})
        )
        self.publish(root)
        return folder

    def write_binary(self, root: Path) -> Path:
        version = self.kind.binary
        folder = root / version.folder
        folder.mkdir(parents=True)
        for name, rows in self.batches(version).items():
            label = self.labels[rows, None].repeat(self.kind.label_bytes, axis=1)
            label[:, :-1] = 9  # the coarse class, which nobody asks for
            content = np.concatenate([label.astype(np.uint8), planes(self.images[rows])], axis=1)
            (folder / name).write_bytes(content.tobytes())
        (folder / [*version.files][-1]).write_text("\n".join(self.names) + "\n\n")
        self.publish(root)
        return folder

    def archive(self, folder: Path) -> Path:
        version = next(v for v in (self.kind.python, self.kind.binary) if v.folder == folder.name)
        path = folder.parent / version.file
        tar(folder, path)
        self.publish(folder.parent)
        return path

    def publish(self, root: Path) -> None:
        """Take the checksums of what lies there as the published ones."""
        self.kind = replace(
            self.kind,
            python=_published(self.kind.python, root, every_file=True),
            binary=_published(self.kind.binary, root, every_file=False),
        )


def _published(version: Archive, root: Path, every_file: bool) -> Archive:
    if (root / version.file).exists():
        version = replace(version, md5=md5(root / version.file))
    if every_file and (root / version.folder).exists():
        own = {name: md5(root / version.folder / name) for name in version.files}
        version = replace(version, files=own)
    return version
