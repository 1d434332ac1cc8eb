"""Mean and spread of a set's colours, for normalisation."""

from __future__ import annotations

import numpy as np

from .dataset import Indices, Pixels

SAMPLE = 1000  # images: the mean is then known to a hundredth of the spread
LEAST = 1 / 255  # spread of images in one colour: dividing by it must stay harmless

Colour = tuple[float, float, float]


def mean_std(images: Pixels, indices: Indices) -> tuple[Colour, Colour]:
    """Per channel, in 0 … 1, over evenly spaced images of these."""
    chosen = indices if len(indices) else np.arange(len(images))
    step = max(1, len(chosen) // SAMPLE)
    pixels = images[np.sort(chosen)[::step]].reshape(-1, 3)
    mean = pixels.mean(axis=0, dtype=np.float64) / 255
    std = np.maximum(pixels.std(axis=0, dtype=np.float64) / 255, LEAST)
    return _colour(mean), _colour(std)


def _colour(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Colour:
    red, green, blue = (round(float(value), 4) for value in values)
    return red, green, blue
