"""EuroSAT (RGB) from its class folders, in any image format, or from the publisher's zip."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from ..errors import DataError
from .archives import EUROSAT, EUROSAT_PAGE, locate, published, verify
from .bulk import Chunk, Decoded, cached, chunks_of, decode_all, decode_chunk, fingerprint
from .cache import PixelFile
from .dataset import NONE, DataSet, OnProgress
from .decode import SUFFIXES

SIDE = 32  # the benchmark's; the files have 64
COUNTS = {
    "AnnualCrop": 3000, "Forest": 3000, "HerbaceousVegetation": 3000, "Highway": 2500,
    "Industrial": 2500, "Pasture": 2000, "PermanentCrop": 2500, "Residential": 3000,
    "River": 2500, "SeaLake": 3000,
}  # fmt: skip
# the same images
EARLIER = published("eurosat", EUROSAT_PAGE, "EuroSAT.zip")
PLACES = ("EuroSAT_RGB", "2750", "EuroSAT/2750", EUROSAT.file, EARLIER.file)


def read(name: str, root: Path | None, size: int | None, progress: OnProgress | None) -> DataSet:
    """Classes by name; of each the first 80 % of the sorted files are training, the rest test."""
    path = locate(root, PLACES, EUROSAT)
    side = size or SIDE
    if path.is_dir():
        checksums = "none are published for the unpacked images; their class counts are right"
        listed = (f"{file.parent.name}/{file.name}" for file in path.glob("*/*"))
        files = _in_order(listed, path)
        # draft=False: the benchmark scales after a full decode
        decoded = decode_all([path / file for file in files], side, False, progress)
    else:
        verify(path, [EUROSAT.md5, EARLIER.md5], EUROSAT)
        checksums = "the archive has the published MD5"
        files, decoded = _from_zip(path, side, progress)
    for i, reason in decoded.unreadable:
        raise DataError(f"{path}: {files[i]} cannot be read: {reason}. Unpack it again.")

    labels = np.repeat(np.arange(len(COUNTS)), list(COUNTS.values()))
    within = np.concatenate([np.arange(n) for n in COUNTS.values()])
    is_train = within < np.array([n * 8 // 10 for n in COUNTS.values()])[labels]
    return DataSet(
        name=name,
        classes=tuple(COUNTS),
        images=decoded.images,
        labels=labels,
        parts=(np.flatnonzero(is_train), NONE, NONE, np.flatnonzero(~is_train)),
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
                f"expected {COUNTS[name]}. " + EUROSAT.advice(where.parent)
            )
    return [file for own in found.values() for file in sorted(own)]


def _from_zip(path: Path, size: int, progress: OnProgress | None) -> tuple[list[str], Decoded]:
    with zipfile.ZipFile(path) as archive:
        files = _in_order(iter(archive.namelist()), path)

        def fill(pixels: PixelFile) -> Iterator[Chunk]:
            for first, names in chunks_of(files).items():
                contents = [io.BytesIO(archive.read(name)) for name in names]
                yield decode_chunk(pixels, size, False, first, contents)

        return files, cached(fingerprint([path], f"zip {size}"), len(files), size, fill, progress)
