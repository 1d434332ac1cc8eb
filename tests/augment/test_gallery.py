"""The picture of every operation in the docs: made by the operations themselves."""

from __future__ import annotations

import numpy as np
from PIL import Image

from tests.augment.oracle import pictures, pillow
from tests.gallery import PICTURE, flower, gallery


def test_tiles_are_the_operations() -> None:
    image = pictures(1, 40, 40)[0]
    sheet = np.array(gallery(image))
    original = Image.fromarray(image.permute(1, 2, 0).numpy())
    # Brightness is the second operation: its last tile, magnitude 0.95, is the fifth of the row.
    left, top = 80 + 4 * 44, 57
    tile = sheet[top : top + 40, left : left + 40]
    expected = np.array(pillow("Brightness", original, 0.95))
    assert np.abs(tile.astype(int) - expected).max() <= 1


def test_the_picture_is_of_today_s_operations() -> None:
    """If this fails: `python -m tests.gallery` draws it anew."""
    drawn = np.asarray(gallery(flower())).astype(int)
    with Image.open(PICTURE) as saved:
        shown = np.asarray(saved.convert("RGB")).astype(int)
    assert shown.shape == drawn.shape and np.abs(shown - drawn).mean() < 3  # of 256 colours
