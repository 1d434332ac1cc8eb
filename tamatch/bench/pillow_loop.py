"""Augmentation as data loaders do it: image by image, through Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw, ImageOps
from torch import Tensor

from ..augment import Policy
from ..augment.pillow_path import OPERATIONS
from ..augment.policy import CUTOUT_FILL, RANGES


def pillow_loop(view: str, images: Tensor, policy: Policy) -> list[Tensor]:
    """The weak or the strong view of each uint8 image, as normalised floats."""
    draw = np.random.default_rng(0)
    mean, std = (torch.tensor(values)[:, None, None] for values in (policy.mean, policy.std))
    made = []
    for pixels in images.permute(0, 2, 3, 1).numpy():
        picture = cropped(pixels, policy.border, draw)
        if view == "strong":
            picture = changed(picture, policy, draw)
        levels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float()
        made.append((levels / 255 - mean) / std)
    return made


def cropped(pixels: npt.NDArray[Any], border: int, draw: np.random.Generator) -> Image.Image:
    """A random crop after reflected padding, perhaps mirrored."""
    edges = ((border, border), (border, border), (0, 0))
    wide = Image.fromarray(np.pad(pixels, edges, mode="reflect"))
    left, top = draw.integers(0, 2 * border + 1, 2).tolist()
    height, width, _ = pixels.shape
    picture = wide.crop((left, top, left + width, top + height))
    return ImageOps.mirror(picture) if draw.random() < 0.5 else picture


def changed(picture: Image.Image, policy: Policy, draw: np.random.Generator) -> Image.Image:
    """Random operations of random magnitudes, then a square cut out."""
    for name in draw.choice(policy.operations, policy.count):
        picture = OPERATIONS[name](picture, draw.uniform(*RANGES[name]))
    picture = picture.copy()  # the identity hands back what it was given
    side = draw.uniform(0, policy.cutout) * picture.width
    left, top = (max(0.0, at - side / 2) for at in draw.uniform(0, picture.size).tolist())
    square = (left, top, min(picture.width, left + side), min(picture.height, top + side))
    ImageDraw.Draw(picture).rectangle(square, CUTOUT_FILL)
    return picture
