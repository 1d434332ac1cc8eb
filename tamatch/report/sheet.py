"""Small pictures side by side in one file: a sheet that a report cuts up again."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from .album import COLUMNS, MOST, TILE


def sheet(images: npt.NDArray[np.uint8]) -> bytes:
    """The first `MOST` of the images (n, H, W, 3) as a JPEG, row by row."""
    shown = images[:MOST]
    rows = max(1, -(-len(shown) // COLUMNS))
    paper = Image.new("RGB", (COLUMNS * TILE, rows * TILE), "white")
    for i, pixels in enumerate(shown):
        how = Image.Resampling.NEAREST if pixels.shape[0] < TILE else Image.Resampling.LANCZOS
        tile = Image.fromarray(np.ascontiguousarray(pixels)).resize((TILE, TILE), how)
        paper.paste(tile, (i % COLUMNS * TILE, i // COLUMNS * TILE))
    file = io.BytesIO()
    paper.save(file, "JPEG", quality=88, optimize=True)
    return file.getvalue()
