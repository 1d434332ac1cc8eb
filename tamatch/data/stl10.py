"""STL-10 (binary) from the archive or its unpacked folder, streamed once into the cache."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from ..errors import DataError
from .archives import STL10, locate, members, verify
from .bulk import Chunk, cached, fingerprint
from .cache import PixelFile
from .dataset import NONE, UNKNOWN, DataSet, OnProgress, Pixels, part_by_part
from .decode import resized

SIDE = 96
IMAGE = 3 * SIDE * SIDE
BATCH = 500  # images in memory while reading
MD5 = dict(STL10.files)
LABELS = "labels.npy"
COUNTS = {"train": 5_000, "unlabeled": 100_000, "test": 8_000}
CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")


def read(name: str, root: Path | None, size: int | None, progress: OnProgress | None) -> DataSet:
    """5,000 training images, 100,000 unlabelled ones and 8,000 test images, in this order."""
    path = locate(root, (STL10.folder, STL10.file), STL10)
    side = size or SIDE
    sources = [path / name for name in MD5] if path.is_dir() else [path]
    # the cache knows these files as they are, so they are verified only when it is built
    key = fingerprint(sources, f"stl10 in chunks {side}")
    decoded = cached(key, sum(COUNTS.values()), side, partial(_fill, path), progress)
    files, (train, unlabelled, test) = part_by_part(COUNTS)
    return DataSet(
        name="stl10",
        classes=CLASSES,
        images=decoded.images,
        labels=np.load(decoded.folder / LABELS),
        parts=(train, unlabelled, NONE, test),
        files=files,
        mean=(112.4 / 255, 109.1 / 255, 98.6 / 255),
        std=(68.4 / 255, 66.6 / 255, 68.5 / 255),
        train_in_pool=True,
        digests=decoded.digests,
        checksums="every file has the published MD5",
    )


def _fill(path: Path, pixels: PixelFile) -> Iterator[Chunk]:
    """Verify the files, then read them part by part in whatever order the archive has them."""
    if path.is_dir():
        for name, md5 in MD5.items():
            verify(path / name, [md5], STL10)
    else:
        verify(path, [STL10.md5], STL10)
    labels = np.full(sum(COUNTS.values()), UNKNOWN, np.int64)
    rows_of = dict(zip(COUNTS, part_by_part(COUNTS)[1], strict=True))
    for name, file in members(path, list(MD5)):
        part, kind = name.removesuffix(".bin").split("_")
        rows = rows_of[part]
        if kind == "y":
            own = np.frombuffer(file.read(), np.uint8).astype(np.int64) - 1
            known = len(own) == len(rows) and own.min() >= 0 and own.max() < len(CLASSES)
            _check(path / name, known)
            labels[rows] = own
            continue
        for at in range(0, len(rows), BATCH):
            batch = rows[at : at + BATCH]
            images = _images(file, len(batch))
            _check(path / name, len(images) == len(batch))
            written = (image.tobytes() for image in resized(images, pixels.size))
            first = int(batch[0])
            digests = pixels.write(first, written)
            yield Chunk(first, np.full((len(batch), 2), SIDE, np.int32), digests, {})
    np.save(pixels.path.with_name(LABELS), labels)


def _images(file: IO[bytes], count: int) -> Pixels:
    """The next images: three colour planes each, stored column by column."""
    content = np.frombuffer(file.read(count * IMAGE), np.uint8)
    whole = content[: len(content) // IMAGE * IMAGE]
    return whole.reshape(-1, 3, SIDE, SIDE).transpose(0, 3, 2, 1)


def _check(where: Path, right: bool) -> None:
    if not right:
        raise DataError(
            f"{where} does not match what STL-10's publisher describes. Unpack it again."
        )
