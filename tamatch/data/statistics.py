"""Mean and spread of a set's colours, for normalisation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .dataset import Indices, Pixels
from .pixelfile import take

SAMPLE = 1000  # images: the mean is then known to a hundredth of the spread
LEAST = 1 / 255  # spread of images in one colour: dividing by it must stay harmless

Colour = tuple[float, float, float]


def mean_std(images: Pixels, indices: Indices) -> tuple[Colour, Colour]:
    """Per channel, in 0 … 1, over evenly spaced images of these."""
    chosen = indices if len(indices) else np.arange(len(images))
    step = max(1, len(chosen) // SAMPLE)
    count, total, squares = 0, np.zeros(3, np.int64), np.zeros(3, np.int64)
    for image in take(images, np.sort(chosen)[::step]):
        channels = image.reshape(-1, 3).T.astype(np.int64, order="C")  # summed along memory
        count += channels.shape[1]
        total += channels.sum(axis=1)
        squares += np.einsum("cn,cn->c", channels, channels)
    mean = total / count
    std = np.sqrt(squares / count - mean * mean)
    return _colour(mean / 255), _colour(np.maximum(std / 255, LEAST))


def _colour(values: npt.NDArray[np.float64]) -> Colour:
    red, green, blue = (round(float(value), 4) for value in values)
    return red, green, blue
