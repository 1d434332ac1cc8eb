"""RandAugment in which every image draws its own operations, then cutout.

On a CPU, large images are changed one by one by Pillow's own operations, which is faster there.
The draws mean the same on both paths, so both give the same distribution, and the same pixels but
for the last level of the enhance operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor, nn

from .curves import curve_table
from .ops import Grid, SettingsTable, operate
from .policy import CUTOUT_FILL, Policy

PILLOW_ABOVE = 32  # side in pixels above which Pillow is faster than the batched path on one core

Picture = Image.Image


def _affine(image: Picture, matrix: tuple[float, ...]) -> Picture:
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


PILLOW_OPERATIONS: dict[str, Callable[[Picture, float], Picture]] = {
    "AutoContrast": lambda x, m: ImageOps.autocontrast(x),
    "Brightness": lambda x, m: ImageEnhance.Brightness(x).enhance(m),
    "Color": lambda x, m: ImageEnhance.Color(x).enhance(m),
    "Contrast": lambda x, m: ImageEnhance.Contrast(x).enhance(m),
    "Equalize": lambda x, m: ImageOps.equalize(x),
    "Identity": lambda x, m: x,
    "Posterize": lambda x, m: ImageOps.posterize(x, int(m)),
    "Rotate": lambda x, m: x.rotate(m),
    "Sharpness": lambda x, m: ImageEnhance.Sharpness(x).enhance(m),
    "ShearX": lambda x, m: _affine(x, (1, m, 0, 0, 1, 0)),
    "ShearY": lambda x, m: _affine(x, (1, 0, 0, m, 1, 0)),
    "Solarize": lambda x, m: ImageOps.solarize(x, math.ceil(m)),
    "TranslateX": lambda x, m: _affine(x, (1, 0, m * x.width, 0, 1, 0)),
    "TranslateY": lambda x, m: _affine(x, (1, 0, 0, 0, 1, m * x.height)),
}
"""Each operation as a function of one image and its magnitude."""


class RandAugment(nn.Module):
    """`count` operations drawn with replacement, each with its own magnitude, then a cutout."""

    fill: Tensor
    curves: Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy
        self.table = SettingsTable(policy.operations)
        fill = torch.tensor(CUTOUT_FILL, dtype=torch.float32)[:, None]
        self.register_buffer("fill", fill, persistent=False)
        self.register_buffer("curves", curve_table(), persistent=False)

    @property
    def draws(self) -> int:
        """How many uniform numbers each image needs."""
        return 2 * self.policy.count + 3

    def choose(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """The operations' codes and magnitudes that float64 draws stand for, (count, N) each."""
        rounds = draws[:, : 2 * self.policy.count].T
        codes = (rounds[0::2] * len(self.policy.operations)).long()
        return codes, self.table.magnitudes(codes, rounds[1::2])

    def forward(self, images: Tensor, draws: Tensor) -> Tensor:
        """uint8 (N, 3, H, W) and float64 draws (N, draws) to whole levels in float32."""
        if len(images) == 0:
            return images.to(torch.float32)
        height, width = images.shape[-2:]
        grid = Grid.of(height, width, images.device)
        codes, magnitudes = self.choose(draws)
        on_cpu = images.device.type == "cpu" and not torch.compiler.is_compiling()
        if on_cpu and height * width > PILLOW_ABOVE**2:
            x = self._by_pillow(images, codes, magnitudes)
        else:
            x = images.flatten(2).to(torch.float32)
            for settings in self.table(codes, magnitudes, grid).rounds():
                x = operate(x, settings, self.curves, width)
        if self.policy.cutout > 0:
            box = cutout_box(draws[:, -3:], self.policy.cutout, height, width)
            x = cutout(x, box, self.fill, grid)
        return x.view(images.shape)

    def _by_pillow(self, images: Tensor, codes: Tensor, magnitudes: Tensor) -> Tensor:
        """Change uint8 images (N, 3, H, W) on the CPU, one after another."""
        rows = np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())
        for row, own_codes, own in zip(rows, codes.T.tolist(), magnitudes.T.tolist(), strict=True):
            picture = Image.fromarray(row)
            for code, magnitude in zip(own_codes, own, strict=True):
                picture = PILLOW_OPERATIONS[self.policy.operations[code]](picture, magnitude)
            row[:] = np.asarray(picture)
        return torch.from_numpy(rows).permute(0, 3, 1, 2).flatten(2).to(torch.float32)


def cutout_box(draws: Tensor, largest: float, height: int, width: int) -> Tensor:
    """Left, top, right, bottom of the erased square, inclusive, int64 (N, 4).

    Draws (N, 3) are its side, as a part of `largest` of the width, and the place of its centre.
    """
    side = draws[:, 0] * (largest * width)
    left = (draws[:, 1] * width - side / 2).clamp(min=0).floor()
    top = (draws[:, 2] * height - side / 2).clamp(min=0).floor()
    right, bottom = (left + side).clamp(max=width), (top + side).clamp(max=height)
    return torch.stack((left, top, right, bottom), dim=1).long()


def cutout(x: Tensor, box: Tensor, fill: Tensor, grid: Grid) -> Tensor:
    """Paint the box of each image (N, 3, H*W), its edges included, in one colour."""
    left, top, right, bottom = box[:, :, None].unbind(1)
    in_columns = (grid.columns >= left) & (grid.columns <= right)
    in_rows = (grid.rows >= top) & (grid.rows <= bottom)
    erased = (in_rows[:, :, None] & in_columns[:, None, :]).flatten(1)
    return torch.where(erased[:, None], fill, x)
