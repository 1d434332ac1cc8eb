"""Images for the eye: from the person's file where it is larger than what the net sees."""

from __future__ import annotations

import io
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image

from ..data import DataSet
from ..data.dataset import Indices
from ..data.decode import Unreadable, decode
from ..storage.spreadsheet import original

SIDE = 256  # pixels; more is not shown
KEPT = 1024  # images that stay in memory

Picture = tuple[str, bytes]  # media type, content


class Pictures:
    """The images of a survey by their position in it; no request ever names a file."""

    def __init__(self, data: DataSet, images: Indices, place: Path) -> None:
        self.data, self.images, self.place = data, images, place
        self.of = lru_cache(KEPT)(self._of)

    def _of(self, position: int) -> Picture:
        i = int(self.images[position])
        pixels = self._from_file(i)
        return encoded(self.data.images[i] if pixels is None else pixels)

    def _from_file(self, i: int) -> np.ndarray | None:
        """The central square of the file, or None where it shows no more than the net sees."""
        sizes = self.data.original_sizes
        side = 0 if sizes is None else min(SIDE, int(sizes[i].min()))
        if side <= self.data.size:
            return None
        try:
            return decode(self.place / original(self.data.files[i]), side)[0]
        except Unreadable:
            return None


def encoded(pixels: np.ndarray) -> Picture:
    """Small images exactly, larger ones as JPEG."""
    kind = "png" if len(pixels) <= 64 else "jpeg"
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, kind, quality=88)
    return f"image/{kind}", file.getvalue()
