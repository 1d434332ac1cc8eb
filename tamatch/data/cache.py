"""The cache of decoded images: entries are complete or absent, and checked whenever opened."""

import errno
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ..errors import DataError
from ..storage.files import read_json
from ..storage.record import file_digest
from .dataset import Digests, Indices, Pixels, digests_of

PIXELS = "pixels.npy"
DIGESTS = "digests.npy"
MANIFEST = "manifest.json"
UNFINISHED = "building-"
STALE = 24 * 3600  # seconds after which an unfinished entry belongs to a process that died
HEADER = 128  # bytes; NumPy pads its header to a multiple of 64, and ours never needs more
BUFFER = 1 << 20  # bytes written at once

Facts = dict[str, Any]


class PixelFile:
    """Images (N, size, size, 3) in an .npy file, read as a memory map.

    Several processes may write different rows at once, with ordinary writes: through a memory map,
    a full disk would kill the process instead of raising an error.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.row = 3 * size * size

    def create(self, count: int) -> None:
        """Make room for `count` images."""
        with self.path.open("wb") as file:
            file.write(self._header(count))
            file.truncate(HEADER + count * self.row)

    def write(self, first: int, images: Iterable[bytes]) -> Digests:
        """Put images into the rows that begin with `first`, and return their digests.

        Each is digested as it comes, while it is in the processor's cache. Writes are buffered: one
        for each small image would cost more than its digest.
        """
        with self.path.open("r+b", buffering=BUFFER) as file:
            file.seek(HEADER + first * self.row)

            def written() -> Iterator[bytes]:
                for image in images:
                    file.write(image)
                    yield image

            return digests_of(written())

    def keep(self, rows: Indices) -> None:
        """Close the gaps: only these rows, in ascending order, remain."""
        with self.path.open("r+b") as file:
            for new, old in enumerate(rows.tolist()):
                if new != old:
                    file.seek(HEADER + old * self.row)
                    content = file.read(self.row)
                    file.seek(HEADER + new * self.row)
                    file.write(content)
            file.truncate(HEADER + len(rows) * self.row)
            file.seek(0)
            file.write(self._header(len(rows)))

    def open(self) -> Pixels:
        pixels: Pixels = np.load(self.path, mmap_mode="r")
        return pixels

    def intact(self, digests: Digests) -> bool:
        """Whether the file holds exactly the images with these digests."""
        with self.path.open("rb") as file:
            if file.read(HEADER) != self._header(len(digests)):
                return False
            found = digests_of(file.read(self.row) for _ in range(len(digests)))
            return not file.read(1) and bool((found == digests).all())

    def _header(self, count: int) -> bytes:
        shape = (count, self.size, self.size, 3)
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            buffer, {"descr": "|u1", "fortran_order": False, "shape": shape}
        )
        header = buffer.getvalue()
        assert len(header) == HEADER
        return header


@dataclass(frozen=True)
class Entry:
    """What the cache holds under one key; `build` may have put more files into its folder."""

    folder: Path
    images: Pixels  # a memory map
    digests: Digests
    facts: Facts


def cache_folder() -> Path:
    """$TAMATCH_CACHE, or the user's cache folder. It may be deleted at any time."""
    own = os.environ.get("TAMATCH_CACHE")
    if own:
        return Path(own)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tamatch"
    except RuntimeError:  # as in a container whose user is a mere number
        raise DataError(
            "there is no place for the image cache, as this user has no home folder. Set "
            "TAMATCH_CACHE to a folder."
        ) from None


def open_or_build(key: str, size: int, build: Callable[[Path], Facts]) -> Entry:
    """The entry `key`; if there is none, or it was damaged since, `build` writes its files.

    These are at least the pixels and the digest of each image, and the same whoever builds them. A
    new entry appears by one rename: other processes see all of it or nothing.
    """
    folder = cache_folder()
    place = folder / key
    facts = _read(place, size)
    if facts is None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _sweep(folder)
            # not by mkdtemp, whose folders other users of a common cache cannot read
            working = folder / f"{UNFINISHED}{uuid4().hex}"
            working.mkdir()
            try:
                facts = build(working)
                # the pixels need no checksum: their digests vouch for them
                others = (path for path in sorted(working.iterdir()) if path.name != PIXELS)
                digests = {path.name: file_digest(path) for path in others}
                manifest = {"files": digests, "facts": facts}
                (working / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
                _publish(working, place, size)
            finally:
                shutil.rmtree(working, ignore_errors=True)
        except OSError as error:
            raise DataError(
                f"the image cache {folder} cannot be written: {error.strerror or error}. Free some "
                "space, or set TAMATCH_CACHE to another folder."
            ) from error
    images = PixelFile(place / PIXELS, size).open()
    return Entry(place, images, np.load(place / DIGESTS), facts)


def _read(place: Path, size: int) -> Facts | None:
    """The facts of an entry, or None if it is absent, unreadable or not as it was written."""
    try:
        manifest = read_json(place / MANIFEST)
        if any(file_digest(place / name) != digest for name, digest in manifest["files"].items()):
            return None
        if not PixelFile(place / PIXELS, size).intact(np.load(place / DIGESTS)):
            return None
        facts: Facts = manifest["facts"]
        return facts
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _publish(working: Path, place: Path, size: int) -> None:
    """Rename a new entry to its place, or replace the files of a damaged one there."""
    try:
        working.rename(place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if _read(place, size) is not None:
            return  # another process was faster
        # Others may do the same just now, with the same content, or read: at every moment each
        # file is there, and once a good one is, it stays good. A folder cannot be replaced so.
        for path in sorted(working.iterdir()):
            path.replace(place / path.name)


def _sweep(folder: Path) -> None:
    """Remove what killed processes left behind."""
    for path in folder.glob(UNFINISHED + "*"):
        with suppress(OSError):  # its process has finished it just now, or it is another user's
            written = max(there.stat().st_mtime for there in (path, *path.iterdir()))
            if time.time() - written > STALE:
                shutil.rmtree(path, ignore_errors=True)
