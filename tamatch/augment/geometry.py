"""Where the pixels of warped images come from: nearest neighbour, as Pillow finds it.

Pillow walks through an affine map in 16-bit fixed point, and shifts by whole pixels where the map
is a pure translation. The same whole numbers here give the same pixels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_ONE = 1 << 16  # one pixel in fixed point


class Grid(NamedTuple):
    """Pixel positions of one image size."""

    rows: Tensor  # (H,) int32
    columns: Tensor  # (W,) int32
    inner: Tensor  # (H*W,) bool, all but the outermost pixels

    @classmethod
    def of(cls, height: int, width: int, device: torch.device) -> Grid:
        """The positions in images of this size, made on the device itself."""
        inner = torch.zeros(height, width, dtype=torch.bool, device=device)
        inner[1:-1, 1:-1].fill_(True)
        rows, columns = (
            torch.arange(side, device=device, dtype=torch.int32) for side in (height, width)
        )
        return cls(rows, columns, inner.flatten())


def affine(
    degrees: Tensor, shear_x: Tensor, shear_y: Tensor, move_x: Tensor, move_y: Tensor, grid: Grid
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The map (a, b, c, d, e, f) from output to input positions in int32 fixed point.

    x' = a x + b y + c and y' = d x + e y + f, for float64 arguments of any shape of which all
    but one are zero. Rotation is about the centre, shear about the top left corner; moves are
    fractions of the image. c and f include the half pixel to the centre of the first pixel.
    """
    height, width = len(grid.rows), len(grid.columns)
    angle = degrees * -(math.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    b, d = sin + shear_x, shear_y - sin
    c = width / 2 - (cos * (width / 2) + sin * (height / 2)) + (cos + b) * 0.5
    f = height / 2 - (cos * (height / 2) - sin * (width / 2)) + (cos + d) * 0.5
    a, b, c, d, f = (torch.stack((cos, b, c, d, f)) * _ONE + 0.5).floor().int().unbind()
    shift_x = (move_x * width + 0.5).floor().int() * _ONE
    shift_y = (move_y * height + 0.5).floor().int() * _ONE
    return a, b, c + shift_x, d, a, f + shift_y


def sources(
    matrix: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], grid: Grid
) -> tuple[Tensor, Tensor]:
    """The pixel each position shows, (…, H*W) int64, and 1.0 where there is one, else 0.0."""
    a, b, c, d, e, f = (entry[..., None] for entry in matrix)
    height, width = len(grid.rows), len(grid.columns)
    x = (grid.rows * b + c)[..., :, None] + (grid.columns * a)[..., None, :]
    y = (grid.rows * e + f)[..., :, None] + (grid.columns * d)[..., None, :]
    x, y = x >> 16, y >> 16
    near_x, near_y = x.clamp(0, width - 1), y.clamp(0, height - 1)
    seen = (x == near_x) & (y == near_y)
    return near_x.add(near_y, alpha=width).flatten(-2).long(), seen.flatten(-2).to(torch.float32)
