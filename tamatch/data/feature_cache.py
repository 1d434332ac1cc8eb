"""Features of images, computed once: an image that was seen before costs nothing.

An entry holds what one net says about images, in parts that are never changed. A part is named by
the SHA-256 of its content: it is complete or absent, and is checked whenever it is opened. Several
processes may add parts at the same time; at worst, they compute the same.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DataError, StorageError
from ..storage.files import write_bytes
from .cache import cache_folder
from .dataset import DIGEST, Digests, OnProgress, Pixels, take

Floats = npt.NDArray[np.float32]

PART = 1024  # images whose features are computed, and kept, together
SUFFIX = ".features"


def features_of(
    images: Pixels,
    digests: Digests,
    key: str,
    compute: Callable[[Pixels], Floats],
    progress: OnProgress | None = None,
) -> Floats:
    """A row of features for each image; only those that are not in the entry `key` are computed.

    `compute` makes them of up to PART images at once; `progress` is told of images.
    """
    folder, count = _entry(key), len(digests)
    found: Floats = np.empty((0, 0), np.float32)
    places: dict[bytes, list[int]] = {}  # of the images that are still to come
    for place, name in enumerate(digests):
        places.setdefault(name.tobytes(), []).append(place)

    def fill_in(known: Digests, rows: Floats) -> int:
        """The rows of the images with these digests; how many there are."""
        nonlocal found
        if not len(found):
            found = np.empty((count, rows.shape[1]), np.float32)
        at = [places.pop(name.tobytes(), []) for name in known]
        for own, row in zip(at, rows, strict=True):
            found[own] = row
        return sum(map(len, at))

    done = sum(fill_in(*part) for part in _parts(folder))
    missing = np.array([at[0] for at in places.values()], np.int64)
    for first in range(0, len(missing), PART):
        chosen = missing[first : first + PART]
        rows = np.ascontiguousarray(compute(take(images, chosen)), np.float32)
        _write(folder, digests[chosen], rows)
        done += fill_in(digests[chosen], rows)
        if progress is not None:
            progress(done, count)
    return found


def missing(digests: Digests, key: str) -> int:
    """How many different images have no features in the entry `key` yet."""
    left = {row.tobytes() for row in digests}
    for known, _ in _parts(_entry(key)):
        left.difference_update(row.tobytes() for row in known)
    return len(left)


def holds_some(key: str) -> bool:
    """Whether there are any features in the entry `key`; the images need not be read to tell."""
    return any(_entry(key).glob(f"*{SUFFIX}"))


def _entry(key: str) -> Path:
    return cache_folder() / f"features-{key[:32]}"


def _parts(folder: Path) -> Iterator[tuple[Digests, Floats]]:
    """The digests and features of every sound part; a damaged one is removed."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with suppress(OSError):
            content = path.read_bytes()
            if hashlib.sha256(content).hexdigest() == path.stem:
                count = int.from_bytes(content[:8], "little")
                middle = 8 + count * DIGEST
                digests = np.frombuffer(content[8:middle], np.uint8).reshape(count, DIGEST)
                yield digests, np.frombuffer(content[middle:], "<f4").reshape(count, -1)
            else:
                path.unlink()


def _write(folder: Path, digests: Digests, rows: Floats) -> None:
    content = len(rows).to_bytes(8, "little") + digests.tobytes() + rows.astype("<f4").tobytes()
    path = folder / (hashlib.sha256(content).hexdigest() + SUFFIX)
    try:
        write_bytes(path, content)
    except StorageError as error:
        raise DataError(
            f"the features cannot be kept: {error} Free some space, or set TAMATCH_CACHE to "
            "another folder."
        ) from error
