"""A net small enough to be repeated in NumPy: what is compared is the method, not the net."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor, nn

from tamatch.types import Out

PIXELS = 3 * 4 * 4


class ToyNet(nn.Module):
    """(N, 3, 4, 4) images; no BatchNorm and no dropout, so an image's output is its own."""

    def __init__(self, classes: int, width: int = 6, map_width: int = 12) -> None:
        super().__init__()
        self.classes, self.width, self.map_width = classes, width, map_width
        self.A = nn.Parameter(torch.randn(width, PIXELS) / PIXELS**0.5)
        self.M = nn.Parameter(torch.randn(map_width, PIXELS) / PIXELS**0.5)
        self.W = nn.Parameter(torch.randn(classes, width))
        self.b = nn.Parameter(torch.zeros(classes))

    @classmethod
    def of(cls, params: Mapping[str, npt.NDArray[Any]]) -> ToyNet:
        """The net with these parameters, in their precision; other keys (heads) are left out."""
        net = cls(len(params["b"]), len(params["A"]), len(params["M"]))
        for name in ("A", "M", "W", "b"):
            setattr(net, name, nn.Parameter(torch.tensor(params[name])))
        return net

    def forward(self, x: Tensor) -> Out:
        flat = x.reshape(len(x), PIXELS)
        features = (flat @ self.A.T).tanh()
        return Out(features @ self.W.T * 4 + self.b, features, (flat @ self.M.T).tanh())
