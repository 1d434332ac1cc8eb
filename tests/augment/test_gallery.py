"""The gallery shows every operation and stays small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from tamatch.augment.gallery import gallery, write_gallery
from tests.augment.oracle import pictures, pillow


def test_tiles_are_the_operations(tmp_path: Path) -> None:
    image = pictures(1, 40, 40)[0]
    sheet = np.array(gallery(image))
    original = Image.fromarray(image.permute(1, 2, 0).numpy())
    # Brightness is the second operation: its last tile, magnitude 0.95, is the fifth of the row.
    left, top = 80 + 4 * 44, 57
    tile = sheet[top : top + 40, left : left + 40]
    expected = np.array(pillow("Brightness", original, 0.95))
    assert np.abs(tile.astype(int) - expected).max() <= 1

    write_gallery(image, tmp_path / "gallery.png")
    with Image.open(tmp_path / "gallery.png") as saved:
        assert saved.size == (sheet.shape[1], sheet.shape[0])
