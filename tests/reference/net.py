"""The toy net and the auxiliary heads, in NumPy.

Keys of the net: `A`, `M`, `W`, `b`. Keys of the heads, as `nn.Linear` and `nn.Sequential(Linear,
ReLU, Linear)` would name them: `rotation.weight`, `rotation.bias` (ReMixMatch); `rotation.0.*`,
`rotation.2.*`, `distance.*` (CRMatch); `projector.0.*`, `projector.2.*` (CoMatch, SimMatch);
`second.*` (ABC, ACR, CCL, TaMatch-LT); `projector.*` and `centre.*` (CCL).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .records import Array, Params

WIDTH = 6
MAP_WIDTH = 12
PIXELS = 48
GAIN = 4.0
CLASSES = -1  # in the shape of a head: as many as there are classes


class NumpyOut(NamedTuple):
    """What the net returns."""

    logits: Array
    features: Array
    map: Array


class NumpyNet:
    """The twin of the torch `ToyNet`."""

    def __init__(self, params: Params) -> None:
        self.params = params

    def __call__(self, images: Array) -> NumpyOut:
        flat = images.reshape(len(images), PIXELS)
        features = np.tanh(flat @ self.params["A"].T)
        logits = GAIN * features @ self.params["W"].T + self.params["b"]
        return NumpyOut(logits, features, np.tanh(flat @ self.params["M"].T))

    def pull_back(self, images: Array, logits_gradient: Array) -> Array:
        """The gradient at the images of a loss whose gradient at the logits is given."""
        features = self(images).features
        at_features = GAIN * logits_gradient @ self.params["W"]
        at_flat = (at_features * (1 - features**2)) @ self.params["A"]
        return at_flat.reshape(images.shape)


def linear(params: Params, name: str, inputs: Array) -> Array:
    """inputs · weightᵀ + bias."""
    return inputs @ params[f"{name}.weight"].T + params[f"{name}.bias"]


def two_layers(params: Params, name: str, inputs: Array) -> Array:
    """Linear, ReLU, Linear."""
    hidden = np.maximum(linear(params, f"{name}.0", inputs), 0)
    return linear(params, f"{name}.2", hidden)


def linear_shapes(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    """The keys and shapes that `linear` reads."""
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def two_layer_shapes(name: str, width: int, outputs: int) -> dict[str, tuple[int, ...]]:
    """The keys and shapes that `two_layers` reads."""
    return linear_shapes(f"{name}.0", width, width) | linear_shapes(f"{name}.2", width, outputs)
