"""SVHN's cropped digits from the publisher's .mat files, decoded once into the cache."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError, one_line
from .archives import SVHN, locate, verify
from .bulk import cached_blocks, fingerprint
from .dataset import NONE, DataSet, OnProgress, Pixels, part_by_part

SIDE = 32
PARTS = {"svhn": ("train", "test"), "svhn-extra": ("train", "extra", "test")}


def read(name: str, root: Path | None, size: int | None, progress: OnProgress | None) -> DataSet:
    """The training digits, with the extra ones behind them if the name says so; then the test's."""
    parts = PARTS[name]
    files = {part: locate(root, places(part), SVHN[part]) for part in parts}

    def blocks() -> Iterator[Pixels]:
        # the cache knows these files as they are, so they are verified only when it is built
        for part, file in files.items():
            verify(file, [SVHN[part].md5], SVHN[part])
        for file in files.values():
            yield variable(file, "X").transpose(3, 0, 1, 2)

    labels = [variable(file, "y").reshape(-1).astype(np.int64) % 10 for file in files.values()]
    names, rows = part_by_part(dict(zip(parts, map(len, labels), strict=True)))
    key = fingerprint([*files.values()], f"{name} {size or SIDE}")
    decoded = cached_blocks(key, len(names), size or SIDE, blocks, progress)
    return DataSet(
        name=name,
        classes=tuple("0123456789"),
        images=decoded.images,
        labels=np.concatenate(labels),  # a zero is stored as 10
        parts=(np.concatenate(rows[:-1]), NONE, NONE, rows[-1]),
        files=names,
        mean=(0.438, 0.444, 0.473),  # the benchmark's
        std=(0.1751, 0.1771, 0.1744),
        digests=decoded.digests,
        checksums="every file has the published MD5",
    )


def places(part: str) -> list[str]:
    """Where a file may lie; the extra digits may be with the others."""
    file = SVHN[part].file
    return [file, f"svhn/{file}"] if part == "extra" else [file]


def variable(file: Path, name: str) -> npt.NDArray[Any]:
    """One array of a .mat file."""
    from scipy.io import loadmat  # type: ignore[import-untyped]

    try:
        found: npt.NDArray[Any] = loadmat(file, variable_names=[name])[name]
        return found.astype(np.uint8, casting="safe", copy=False)
    except Exception as error:  # a file that is damaged can raise anything
        part = file.name.partition("_")[0]
        raise DataError(
            f"{file} is not SVHN's file ({one_line(error)}). Delete it. "
            + SVHN[part].advice(file.parent)
        ) from None
