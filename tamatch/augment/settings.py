"""From the operation and magnitude each image drew to the numbers that carry it out.

All fourteen operations are made of three steps that every image goes through: a warp, a tone
curve and a blend. An operation sets some numbers of these steps and leaves the others neutral,
so that one batch can mix all operations without asking which image has which.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .curves import IDENTITY, POSTERIZE, SOLARIZE
from .geometry import Grid, affine, sources
from .policy import RANGES

_NEUTRAL = {
    "degrees": 0.0,
    "shear_x": 0.0,
    "shear_y": 0.0,
    "move_x": 0.0,
    "move_y": 0.0,
    "curve": float(IDENTITY),
    "stretch": 0.0,
    "equalize": 0.0,
    "keep": 1.0,
    "to_mean": 0.0,
    "to_grey": 0.0,
    "to_blur": 0.0,
}
_EFFECT: dict[str, dict[str, tuple[float, float]]] = {  # number = first + second * magnitude
    "AutoContrast": {"stretch": (1, 0)},
    "Brightness": {"keep": (0, 1)},
    "Color": {"keep": (0, 1), "to_grey": (1, 0)},
    "Contrast": {"keep": (0, 1), "to_mean": (1, 0)},
    "Equalize": {"equalize": (1, 0)},
    "Identity": {},
    "Posterize": {"curve": (POSTERIZE, 1)},
    "Rotate": {"degrees": (0, 1)},
    "Sharpness": {"keep": (0, 1), "to_blur": (1, 0)},
    "ShearX": {"shear_x": (0, 1)},
    "ShearY": {"shear_y": (0, 1)},
    "Solarize": {"curve": (SOLARIZE, -1)},
    "TranslateX": {"move_x": (0, 1)},
    "TranslateY": {"move_y": (0, 1)},
}


class Settings(NamedTuple):
    """What the three steps need to know of each image.

    Numbers have the shape (…, N, 1, 1) and maps (…, N, 1, H*W), to be spread over pixels
    (N, 3, H*W); a leading dimension counts the rounds.
    """

    source: Tensor  # map, int64: the pixel that each position shows
    seen: Tensor  # map: 0 where that lies outside the image
    curve: Tensor  # row of the table of tone curves
    stretch: Tensor  # bool: each channel is stretched to the full range instead
    equalize: Tensor  # bool: each channel's histogram is flattened instead
    keep: Tensor  # map: how much of the image stays; the rest becomes
    to_mean: Tensor  # 1: its mean grey
    to_grey: Tensor  # 1: itself in grey
    to_blur: Tensor  # 1: itself blurred; black where all three are 0

    def rounds(self) -> list[Settings]:
        """The settings of each round."""
        return [Settings(*one) for one in zip(*(each.unbind() for each in self), strict=True)]


class SettingsTable(nn.Module):
    """Looks up the settings of each image's operation; `codes` count along `operations`."""

    base: Tensor
    slope: Tensor
    low: Tensor
    span: Tensor

    def __init__(self, operations: tuple[str, ...]) -> None:
        super().__init__()
        neutral = {name: (value, 0.0) for name, value in _NEUTRAL.items()}
        rows = [list((neutral | _EFFECT[name]).values()) for name in operations]
        ranges = [RANGES[name] for name in operations]
        base, slope = torch.tensor(rows, dtype=torch.float64).unbind(-1)
        low, high = torch.tensor(ranges, dtype=torch.float64).unbind(-1)
        self.register_buffer("base", base.contiguous(), persistent=False)
        self.register_buffer("slope", slope.contiguous(), persistent=False)
        self.register_buffer("low", low.contiguous(), persistent=False)
        self.register_buffer("span", high - low, persistent=False)

    def magnitudes(self, codes: Tensor, draws: Tensor) -> Tensor:
        """Uniform draws in [0, 1) scaled to the range of each image's operation, float64."""
        return self.low[codes] + self.span[codes] * draws

    def forward(self, codes: Tensor, magnitudes: Tensor, grid: Grid) -> Settings:
        """Settings of codes and float64 magnitudes (…, N) for images of one size."""
        numbers = self.base[codes] + self.slope[codes] * magnitudes[..., None]
        degrees, shear_x, shear_y, move_x, move_y, curve = numbers[..., :6].unbind(-1)
        matrix = affine(degrees, shear_x, shear_y, move_x, move_y, grid)
        source, seen = sources(matrix, grid)
        singles = numbers[..., 6:, None, None].to(torch.float32)
        stretch, equalize, keep, to_mean, to_grey, to_blur = singles.unbind(-3)
        return Settings(
            source=source[..., None, :],
            seen=seen[..., None, :],
            curve=curve.floor()[..., None, None].to(torch.float32),
            stretch=stretch > 0,
            equalize=equalize > 0,
            keep=torch.where(grid.inner | (to_blur == 0), keep, 1.0),
            to_mean=to_mean,
            to_grey=to_grey,
            to_blur=to_blur,
        )
