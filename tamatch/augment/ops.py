"""Every RandAugment operation on its own: a batch of images, one magnitude per image.

All share one signature: uint8 images (N, 3, H, W) and magnitudes (N,) to uint8 images.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor

from .curves import curve_table
from .geometry import Grid
from .pixels import operate
from .policy import OPERATIONS
from .settings import SettingsTable

Operation = Callable[[Tensor, Tensor], Tensor]


def apply(name: str, images: Tensor, magnitude: Tensor) -> Tensor:
    """Apply the operation of this name, each image with its own magnitude."""
    height, width = images.shape[-2:]
    grid = Grid.of(height, width, images.device)
    table, curves = _tables(images.device)
    codes = torch.full_like(magnitude, OPERATIONS.index(name), dtype=torch.int64)
    settings = table(codes, magnitude.double(), grid)
    pixels = images.flatten(2).to(torch.float32)
    return operate(pixels, settings, curves, width).to(torch.uint8).view(images.shape)


@cache
def _tables(device: torch.device) -> tuple[SettingsTable, Tensor]:
    return SettingsTable(OPERATIONS).to(device), curve_table().to(device)


BY_NAME: dict[str, Operation] = {name: partial(apply, name) for name in OPERATIONS}
"""The operations by name, such as `BY_NAME["Rotate"](images, degrees)`."""
