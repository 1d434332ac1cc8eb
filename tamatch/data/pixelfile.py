"""Images in one .npy file, written row by row and read as a memory map: memory use stays flat."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np

from .dataset import Digests, Indices, Pixels, digests_of

HEADER = 128  # bytes; NumPy pads its header to a multiple of 64, and ours never needs more
BUFFER = 1 << 20  # bytes written at once


class PixelFile:
    """(N, size, size, 3) bytes on disk. Several processes may write different rows at once.

    Rows are written with ordinary writes: through a memory map, a full disk would kill the
    process instead of raising an error.
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

        Each is digested as it comes, while the processor still has it at hand, and many are
        written together: a write of its own for a small image costs more than its digest.
        """
        with self.path.open("r+b", buffering=BUFFER) as file:
            file.seek(HEADER + first * self.row)
            return digests_of(_written(image, file) for image in images)

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
        if len(header) != HEADER:
            raise AssertionError(f"NumPy wrote a header of {len(header)} bytes")
        return header


def _written(image: bytes, file: IO[bytes]) -> bytes:
    file.write(image)
    return image


def take(images: Pixels, rows: Indices) -> Pixels:
    """Some images. Those of a memory map are read from its file: touching the map would keep
    everything around them in memory, too."""
    if not isinstance(images, np.memmap) or images.filename is None:
        return images[rows]
    size = images[0].size
    with open(images.filename, "rb") as file:
        contents = [_at(file, images.offset + int(row) * size, size) for row in rows]
    return np.frombuffer(b"".join(contents), np.uint8).reshape(-1, *images.shape[1:])


def _at(file: IO[bytes], offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)
