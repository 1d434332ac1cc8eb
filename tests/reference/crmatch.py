"""CRMatch: FixMatch, features of the two views held apart, and rotation."""

from __future__ import annotations

import numpy as np

from . import fixmatch
from .net import MAP_WIDTH, WIDTH, NumpyNet, linear, linear_shapes, two_layer_shapes, two_layers
from .primitives import ce, over_all, turn
from .records import Array, NumpyBatch, Params, Values


def cosines(left: Array, right: Array) -> Array:
    """Cosine of the angle between the rows of one matrix and the same rows of the other."""
    return np.array(
        [
            (a * b).sum() / (np.linalg.norm(a) * np.linalg.norm(b))
            for a, b in zip(left, right, strict=True)
        ]
    )


class Reference(fixmatch.Reference):
    """L = FixMatch + mean(mask · max(0, cos(d_s, d_w))) + CE(rotation); d has a gradient twice.

    The rotation batch is the first B weak views of the unlabelled batch, each in 4 rotations. The
    distance head reads the flattened map, the rotation head the pooled features.
    """

    heads = two_layer_shapes("rotation", WIDTH, 4) | linear_shapes("distance", MAP_WIDTH, WIDTH)

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        net = NumpyNet(params)
        weak, strong = batch.u
        d_weak = linear(params, "distance", net(weak).map)
        d_strong = linear(params, "distance", net(strong).map)
        some = weak[: len(batch.y)]
        turned = np.stack([turn(image, k) for image in some for k in range(4)])
        quarters = np.array([k for _ in some for k in range(4)])
        rotation = two_layers(params, "rotation", net(turned).features)
        return super().terms(params, batch, values) | {
            "distance": over_all(np.maximum(cosines(d_strong, d_weak), 0), values["mask"]),
            "rotation": float(np.mean(ce(rotation, quarters))),
        }

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return super().factors(batch) | {"distance": 1.0, "rotation": 1.0}
