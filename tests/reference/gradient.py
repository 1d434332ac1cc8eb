"""Gradients of a reference's loss by central differences, its constants held."""

from __future__ import annotations

import numpy as np

from .base import SlowMethod
from .records import Array, NumpyBatch, Values

STEP = 1e-6


def gradient(method: SlowMethod, batch: NumpyBatch, values: Values, name: str) -> Array:
    """d loss / d params[name], entry by entry."""
    out = np.empty_like(method.params[name])
    for index in np.ndindex(*out.shape):
        ends = []
        for sign in (1, -1):
            params = {key: value.copy() for key, value in method.params.items()}
            params[name][index] += sign * STEP
            ends.append(method.loss(params, batch, values))
        out[index] = (ends[0] - ends[1]) / (2 * STEP)
    return out
