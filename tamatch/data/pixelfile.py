"""Images in one .npy file, written row by row and read as a memory map: memory use stays flat."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from .dataset import Indices, Pixels

HEADER = 128  # bytes; NumPy pads its header to a multiple of 64, and ours never needs more


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
        """Reserve room for `count` images."""
        with self.path.open("wb") as file:
            file.write(self._header(count))
            end = HEADER + count * self.row
            file.truncate(end)

    def write(self, first: int, images: Pixels) -> None:
        """Put images into the rows that begin with `first`."""
        with self.path.open("r+b") as file:
            file.seek(HEADER + first * self.row)
            file.write(np.ascontiguousarray(images).tobytes())

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
