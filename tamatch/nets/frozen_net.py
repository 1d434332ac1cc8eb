"""A pre-trained net with a linear head on its features: as it is, or trained on from there."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..types import Out
from . import body_of, size_in_name
from . import build as build_net
from .base import Net
from .weights import zero_head


def build(name: str, classes: int, size: int) -> FrozenNet:
    """Build `frozen/NAME` or `tuned/NAME` for images of `size`; a transformer's name has one."""
    body = body_of(name)
    side = size_in_name(body) or size
    return FrozenNet(build_net(body, 1, side), classes, side)


class FrozenNet(Net):
    """Images of any size are resized to the body's own, without smoothing: they are not larger.

    The features are those of an image and of its mirror image, averaged; in training those of the
    image alone, which augmentation mirrors or not.
    """

    channels_last = False

    def __init__(self, body: Net, classes: int, size: int) -> None:
        width = body.frozen_width
        super().__init__(classes=classes, width=width, map_width=width)
        self.body, self.size, self.headless = body, size, body.headless
        self.head = nn.Linear(width, classes)
        self.independent, self.has_cuda_code = body.independent, body.has_cuda_code
        zero_head(body)  # it is never read, and must not make two files of one model differ
        body.head.requires_grad_(False)

    def set_head(self, solved: Tensor) -> None:
        """Take a linear classifier of the features, (C, D + 1) with the intercepts last."""
        self.classes = len(solved)
        self.head = nn.Linear(self.width, self.classes, device=solved.device)
        with torch.no_grad():
            self.head.weight.copy_(solved[:, :-1])
            self.head.bias.copy_(solved[:, -1])

    def forward(self, images: Tensor) -> Out:
        """Classify (N, 3, H, W) images."""
        features = self.frozen_features(images)
        return self.finish(features, features)

    def frozen_features(self, images: Tensor) -> Tensor:
        """Those of the body."""
        if images.shape[-2:] != (self.size, self.size):
            images = F.interpolate(images, (self.size, self.size), mode="bicubic")
        if self.training:
            return self.body.frozen_features(images)
        one, other = (self.body.frozen_features(view) for view in (images, images.flip(-1)))
        return (one + other) / 2

    def accelerate(self, *, compiling: bool = True, kernels: bool = True) -> None:
        """By the body's own kernels; its features are not compiled."""
        self.body.accelerate(compiling=False, kernels=kernels)
        self.rehearsable = self.body.rehearsable

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """That of the body; both heads come last."""
        if parameter.startswith("body."):
            return self.body.depth_of(parameter.removeprefix("body."))
        return self.body.depth_of("head.weight")

    def loadable(self) -> nn.Module:
        """Weight files are those of the body."""
        return self.body.loadable()

    def converted(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """As the body's own library does it."""
        return self.body.converted(tensors)
