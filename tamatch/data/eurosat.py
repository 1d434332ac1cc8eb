"""EuroSAT (RGB) from its class folders, in any image format, or from the publisher's zip."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np

from ..errors import DataError
from .archives import Archive, download_advice, locate, verify
from .bulk import Chunk, Decoded, cached, chunk_size, decode_all, decode_chunk, fingerprint
from .dataset import DataSet, OnProgress
from .decode import SUFFIXES
from .pixelfile import PixelFile

SIDE = 32  # the benchmark's; the files have 64
COUNTS = {
    "AnnualCrop": 3000,
    "Forest": 3000,
    "HerbaceousVegetation": 3000,
    "Highway": 2500,
    "Industrial": 2500,
    "Pasture": 2000,
    "PermanentCrop": 2500,
    "Residential": 3000,
    "River": 2500,
    "SeaLake": 3000,
}
ARCHIVE = Archive(
    "eurosat",
    "EuroSAT_RGB.zip",
    "f46e308c4d50d4bf32fedad2d3d62f3b",
    "https://zenodo.org/records/7711810/files/EuroSAT_RGB.zip",
)
# the same images
EARLIER = replace(ARCHIVE, file="EuroSAT.zip", md5="c8fa014336c82ac7804f0398fcb19387")
PLACES = ("EuroSAT_RGB", "2750", "EuroSAT/2750", ARCHIVE.file, EARLIER.file)


def read(root: Path | None, size: int | None, progress: OnProgress | None = None) -> DataSet:
    """Classes by name; of each the first 80 % of the sorted files are training, the rest test."""
    path = locate(root, "eurosat", PLACES, ARCHIVE)
    side = SIDE if size is None else size
    if path.is_dir():
        checksums = "none are published for the unpacked images; their class counts are right"
        files = _in_folder(path)
        # draft=False: the benchmark scales after a full decode
        decoded = decode_all([path / file for file in files], side, False, progress)
    else:
        verify(path, [ARCHIVE.md5, EARLIER.md5], ARCHIVE)
        checksums = "the archive has the published MD5"
        files, decoded = _from_zip(path, side, progress)
    for i, reason in decoded.unreadable:
        raise DataError(f"{path}: {files[i]} cannot be read: {reason}. Unpack it again.")

    names = [PurePosixPath(file).parts[-2] for file in files]
    labels = np.array([list(COUNTS).index(name) for name in names], np.int64)
    within = np.concatenate([np.arange(n) for n in COUNTS.values()])
    is_train = within < np.array([n * 8 // 10 for n in COUNTS.values()])[labels]
    empty = np.empty(0, np.int64)
    return DataSet(
        name="eurosat",
        classes=tuple(COUNTS),
        images=decoded.images,
        labels=labels,
        parts=(np.flatnonzero(is_train), empty, empty, np.flatnonzero(~is_train)),
        files=["/".join(PurePosixPath(file).parts[-2:]) for file in files],
        mean=(0.5, 0.5, 0.5),
        std=(0.5, 0.5, 0.5),
        shuffled_first=True,
        digests=decoded.digests,
        original_sizes=decoded.sizes,
        checksums=checksums,
    )


def _in_order(files: Iterator[str], where: Path) -> list[str]:
    """The images of the ten classes, by class and then by file name as a string."""
    found: dict[str, list[str]] = {name: [] for name in COUNTS}
    for file in files:
        path = PurePosixPath(file)
        visible = path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
        if visible and len(path.parts) > 1 and path.parts[-2] in found:
            found[path.parts[-2]].append(file)
    for name, own in found.items():
        if len(own) != COUNTS[name]:
            raise DataError(
                f"{where} is not the published data: {len(own)} images of {name}, "
                f"expected {COUNTS[name]}. " + download_advice(ARCHIVE, where.parent)
            )
    return [file for own in found.values() for file in sorted(own)]


def _in_folder(folder: Path) -> list[str]:
    listed = (
        f"{name}/{file.name}"
        for name in COUNTS
        if (folder / name).is_dir()
        for file in (folder / name).iterdir()
    )
    return _in_order(listed, folder)


def _from_zip(path: Path, size: int, progress: OnProgress | None) -> tuple[list[str], Decoded]:
    with zipfile.ZipFile(path) as archive:
        files = _in_order(iter(archive.namelist()), path)

        def fill(pixels: PixelFile) -> Iterator[Chunk]:
            step = chunk_size(len(files))
            for first in range(0, len(files), step):
                contents = [io.BytesIO(archive.read(f)) for f in files[first : first + step]]
                yield decode_chunk(pixels, size, False, first, contents)

        return files, cached(fingerprint([path], f"zip {size}"), len(files), size, fill, progress)
