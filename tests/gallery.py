"""Draws docs/gallery.png, every operation at five magnitudes: `python -m tests.gallery`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from sklearn.datasets import load_sample_image  # type: ignore[import-untyped]
from torch import Tensor

from tamatch.augment.ops import Grid
from tamatch.augment.policy import CUTOUT_FILL, OPERATIONS, RANGES
from tamatch.augment.views import cutout, cutout_box
from tests.augment.oracle import ours

PICTURE = Path(__file__).parents[1] / "docs" / "gallery.png"
SQUARE = (140, 20, 540, 420)  # the flower in the image of scikit-learn
SIDE = 72  # of a tile
MAGNITUDES = 5
_LABEL, _CAPTION, _GAP = 80, 13, 4  # pixels: column of names, line of numbers, between tiles
_BLOCKS = 2  # operations stand in two columns


def gallery(image: Tensor) -> Image.Image:
    """All operations and cutout on one uint8 image (3, H, W), magnitudes growing to the right."""
    rows = [(name, *_operation(name, image)) for name in OPERATIONS]
    rows.append(("Cutout", *_cutout(image)))
    height, width = image.shape[-2:]
    tile_width, tile_height = width + _GAP, height + _CAPTION + _GAP
    block = _LABEL + MAGNITUDES * tile_width
    lines = -(-len(rows) // _BLOCKS)
    sheet = Image.new("RGB", (_BLOCKS * block, lines * tile_height), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(10)
    for number, (name, magnitudes, tiles) in enumerate(rows):
        left, top = number // lines * block, number % lines * tile_height
        draw.text((left + _GAP, top + height / 2), name, "black", font, anchor="lm")
        for column, (magnitude, tile) in enumerate(zip(magnitudes, tiles, strict=True)):
            x = left + _LABEL + column * tile_width
            sheet.paste(Image.fromarray(tile.permute(1, 2, 0).numpy()), (x, top))
            draw.text((x + width / 2, top + height), magnitude, "black", font, anchor="ma")
    return sheet


def _operation(name: str, image: Tensor) -> tuple[list[str], Tensor]:
    """Captions and images (5, 3, H, W); a single one where the operation has no magnitude."""
    low, high = RANGES[name]
    magnitudes = torch.linspace(low, high, MAGNITUDES if high > low else 1)
    captions = [f"{magnitude:.4g}" if high > low else "" for magnitude in magnitudes.tolist()]
    return captions, ours(name, image.expand(len(magnitudes), -1, -1, -1), magnitudes)


def _cutout(image: Tensor) -> tuple[list[str], Tensor]:
    sides = torch.linspace(0.1, 0.5, MAGNITUDES, dtype=torch.float64)
    centre = torch.full_like(sides, 0.5)
    height, width = image.shape[-2:]
    box = cutout_box(torch.stack((sides, centre, centre), dim=1), 1.0, height, width)
    fill = torch.tensor(CUTOUT_FILL, dtype=torch.float32)[:, None]
    pixels = image.flatten(1).float().expand(MAGNITUDES, -1, -1)
    erased = cutout(pixels, box, fill, Grid.of(height, width, image.device))
    return [f"{side:.1f}" for side in sides.tolist()], erased.byte().view(-1, 3, height, width)


def flower() -> Tensor:
    """A sample image of scikit-learn."""
    whole = Image.fromarray(load_sample_image("flower.jpg"))
    small = whole.crop(SQUARE).resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    return torch.from_numpy(np.array(small)).permute(2, 0, 1)


if __name__ == "__main__":
    gallery(flower()).quantize(dither=Image.Dither.NONE).save(PICTURE, optimize=True)
