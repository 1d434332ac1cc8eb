"""What Pillow makes of one image, and images that reach the corners of its arithmetic."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from torch import Tensor

from tamatch.augment.ops import Grid, SettingsTable, curve_table, operate
from tamatch.augment.policy import OPERATIONS

ENHANCE = ("Brightness", "Color", "Contrast", "Sharpness")
AFFINE = {  # output to input, as fractions of (width, height) where they are lengths
    "ShearX": lambda m, size: (1, m, 0, 0, 1, 0),
    "ShearY": lambda m, size: (1, 0, 0, m, 1, 0),
    "TranslateX": lambda m, size: (1, 0, m * size[0], 0, 1, 0),
    "TranslateY": lambda m, size: (1, 0, 0, 0, 1, m * size[1]),
}


def ours(name: str, images: Tensor, magnitude: Tensor) -> Tensor:
    """One operation by our own code, each image with its own magnitude."""
    height, width = images.shape[-2:]
    codes = torch.full_like(magnitude, OPERATIONS.index(name), dtype=torch.int64)
    grid = Grid.of(height, width, images.device)
    settings = SettingsTable(OPERATIONS).to(images.device)(codes, magnitude.double(), grid)
    curves, pixels = curve_table().to(images.device), images.flatten(2).to(torch.float32)
    return operate(pixels, settings, curves, width).to(torch.uint8).view(images.shape)


def pillow(name: str, image: Image.Image, magnitude: float) -> Image.Image:
    """One operation by Pillow."""
    if name in AFFINE:
        matrix = AFFINE[name](magnitude, image.size)
        return image.transform(
            image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=0
        )
    if name in ENHANCE:
        return getattr(ImageEnhance, name)(image).enhance(magnitude)
    if name == "Rotate":
        return image.rotate(magnitude, Image.Resampling.NEAREST)
    if name == "Posterize":
        return ImageOps.posterize(image, int(magnitude))
    if name == "Solarize":
        return ImageOps.solarize(image, magnitude)
    if name in ("AutoContrast", "Equalize"):
        return getattr(ImageOps, name.lower())(image)
    assert name == "Identity"
    return image


def erase(image: Image.Image, box: tuple[float, float, float, float]) -> Image.Image:
    """A filled rectangle by Pillow, corners included."""
    image = image.copy()
    ImageDraw.Draw(image).rectangle(box, fill=(125, 123, 114))
    return image


def picture(image: Tensor) -> Image.Image:
    """A uint8 tensor (3, H, W) for Pillow."""
    return Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())


def tensor(image: Image.Image) -> Tensor:
    """And back."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def pictures(count: int, height: int, width: int, seed: int = 0) -> Tensor:
    """uint8 (count, 3, H, W): noise, narrow ranges, flat channels, few levels, gradients."""
    source = torch.Generator().manual_seed(seed)

    def whole(high: int, *shape: int) -> Tensor:
        return torch.randint(0, high, shape, generator=source)

    noise = whole(256, count, 3, height, width)
    low, span = whole(250, count, 3, 1, 1), 1 + whole(60, count, 3, 1, 1)
    narrow = (low + noise % span).clamp(max=255)
    few = noise // 85 * 85
    slope = torch.arange(width) * (1 + whole(3, count, 3, 1, 1)) + torch.arange(height)[:, None]
    gradient = (slope + low) % 256
    kinds = torch.stack((noise, narrow, few, gradient, narrow))
    chosen = kinds[torch.arange(count) % 5, torch.arange(count)]
    chosen[4::5, 1] = low[4::5, 1]  # a channel of one level
    return chosen.to(torch.uint8)
