"""Images as a user hands them to a model: files, Pillow images, arrays or tensors."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from ..data.dataset import Pixels
from ..data.decode import decode, square_of
from ..errors import UsageError

CHANNELS = (1, 3, 4)  # of an array: grey, colour, colour and opacity

OneImage = str | os.PathLike[str] | Image.Image | np.ndarray | Tensor
Images = OneImage | Iterable[OneImage]


def one_by_one(images: Images) -> Iterable[Any]:
    """The images one by one, also where there is only one."""
    if isinstance(images, str | os.PathLike | Image.Image):
        return [images]
    if isinstance(images, Tensor):
        return images if images.ndim == 4 else [images]
    if isinstance(images, np.ndarray) and images.ndim in (2, 3):
        alone = images.ndim == 2 or images.shape[-1] in CHANNELS
        return [images] if alone else images
    if not isinstance(images, Iterable):
        raise UsageError(
            "a model takes file names, Pillow images, and arrays or tensors of pixels, or a list "
            f"of them; got {type(images).__name__}."
        )
    return images


def pixels_of(image: Any, size: int) -> Pixels:
    """(size, size, 3) of one image, its central square; `Unreadable` if a file is none."""
    if isinstance(image, Tensor):
        image = from_tensor(image)
    if isinstance(image, np.ndarray):
        image = from_array(image)
    if isinstance(image, Image.Image):
        return square_of(image, size)
    if isinstance(image, str | os.PathLike):
        return decode(Path(image), size)[0]
    raise UsageError(
        "a model takes file names, Pillow images, and arrays or tensors of pixels; "
        f"got {type(image).__name__}."
    )


def from_tensor(pixels: Tensor) -> np.ndarray:
    """One image whose colours come first, as torch has them, as an array."""
    if pixels.ndim != 3 or pixels.shape[0] not in CHANNELS:
        raise UsageError(
            "a tensor to predict must be (1, H, W), (3, H, W) or (4, H, W), or a batch of these; "
            f"got {tuple(pixels.shape)}."
        )
    pixels = pixels.float() if pixels.is_floating_point() else pixels
    array: np.ndarray = pixels.detach().cpu().permute(1, 2, 0).numpy()
    return array


def from_array(pixels: np.ndarray) -> Image.Image:
    """One image of bytes, or of floats in 0 … 1, grey or in colour."""
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[-1] not in CHANNELS):
        raise UsageError(
            "an array to predict must be (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), or a batch of "
            f"these; got {pixels.shape}."
        )
    if pixels.dtype.kind == "f" and 0 <= pixels.min() <= pixels.max() <= 1:
        pixels = np.rint(255 * pixels).astype(np.uint8)
    if pixels.dtype != np.uint8:
        raise UsageError(
            f"an array to predict must be bytes (uint8), or floats in 0 … 1; got {pixels.dtype}."
        )
    return Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels)


def described(image: Any) -> str:
    """A name for an error message."""
    return (
        str(image) if isinstance(image, str | os.PathLike) else f"an image ({type(image).__name__})"
    )
