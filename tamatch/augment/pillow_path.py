"""RandAugment by Pillow's own operations, image by image: on a CPU the faster way for large images.

The draws mean the same as on the batched path, so both give the same distribution, and the same
pixels but for the last level of the enhance operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

Picture = Image.Image


def _warp(image: Picture, matrix: tuple[float, ...]) -> Picture:
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


OPERATIONS: dict[str, Callable[[Picture, float], Picture]] = {
    "AutoContrast": lambda x, m: ImageOps.autocontrast(x),
    "Brightness": lambda x, m: ImageEnhance.Brightness(x).enhance(m),
    "Color": lambda x, m: ImageEnhance.Color(x).enhance(m),
    "Contrast": lambda x, m: ImageEnhance.Contrast(x).enhance(m),
    "Equalize": lambda x, m: ImageOps.equalize(x),
    "Identity": lambda x, m: x,
    "Posterize": lambda x, m: ImageOps.posterize(x, int(m)),
    "Rotate": lambda x, m: x.rotate(m),
    "Sharpness": lambda x, m: ImageEnhance.Sharpness(x).enhance(m),
    "ShearX": lambda x, m: _warp(x, (1, m, 0, 0, 1, 0)),
    "ShearY": lambda x, m: _warp(x, (1, 0, 0, m, 1, 0)),
    "Solarize": lambda x, m: ImageOps.solarize(x, math.ceil(m)),
    "TranslateX": lambda x, m: _warp(x, (1, 0, m * x.width, 0, 1, 0)),
    "TranslateY": lambda x, m: _warp(x, (1, 0, 0, 0, 1, m * x.height)),
}
"""Each operation as a function of one image and its magnitude."""


def operate(images: Tensor, names: list[list[str]], magnitudes: list[list[float]]) -> Tensor:
    """Apply to uint8 images (N, 3, H, W) on the CPU, one after another, image n's operations.

    `names` and `magnitudes` have one list per image, in the order of application.
    """
    rows = np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())
    for row, image_names, image_magnitudes in zip(rows, names, magnitudes, strict=True):
        picture = Image.fromarray(row)
        for name, magnitude in zip(image_names, image_magnitudes, strict=True):
            picture = OPERATIONS[name](picture, magnitude)
        row[:] = np.asarray(picture)
    return torch.from_numpy(rows).permute(0, 3, 1, 2)
