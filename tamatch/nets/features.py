"""Pre-trained nets as they are, or tuned from there: features, and a linear head on them."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..machine.precision import native_bf16
from ..machine.threads import side_by_side
from ..rules import finetune
from ..types import Out
from . import FROZEN, body_of, is_timm, size_in_name
from . import build as build_net
from .base import Net, uncompiled
from .pretrained import locate
from .recognise import colours_of, recognise
from .weights import load_weights, zero_head

VERSION = 4  # to be raised whenever the features of the same net, image and size change
PLACES = {"cpu": 1024, "cuda": 65536}  # tokens in a batch: few fit caches, many fill a GPU
PLACE = 16  # pixels of a place in a net that has no tokens

Floats = npt.NDArray[np.float32]


def build(name: str, classes: int, size: int) -> FrozenNet:
    """Build `frozen/NAME` or `tuned/NAME` for images of `size`; a transformer's name has one."""
    body = body_of(name)
    side = size_in_name(body) or size
    return FrozenNet(build_net(body, 1, side), classes, side)


class FrozenNet(Net):
    """Images of any size are resized to the body's own, without smoothing: they are not larger.

    Their mirror images are not looked at: that would take twice the time, for a tenth of a point of
    error, and left and right would look the same.
    """

    channels_last = False

    def __init__(self, body: Net, classes: int, size: int) -> None:
        width = body.frozen_width
        super().__init__(classes=classes, width=width, map_width=width)
        self.body, self.size, self.headless = body, size, body.headless
        self.head = nn.Linear(width, classes)
        self.independent, self.has_cuda_code = body.independent, body.has_cuda_code
        self.repaid = body.repaid
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
        """The body's features."""
        if images.shape[-2:] != (self.size, self.size):
            images = F.interpolate(images, (self.size, self.size), mode="bicubic")
        return self.body.frozen_features(images)

    def accelerate(self, *, compiling: bool = True, kernels: bool = True) -> None:
        """The body is all there is to it."""
        self.body.accelerate(compiling=compiling, kernels=kernels)
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
        """Converted as the body's own library does it."""
        return self.body.converted(tensors)


@dataclass(frozen=True)
class Frozen:
    """A net with its weights and the colours that it expects."""

    net: FrozenNet
    name: str
    normalise: str
    origin: str = ""  # of the weights: name, licence, size and source

    @property
    def device(self) -> torch.device:
        return next(self.net.parameters()).device

    @property
    def size(self) -> int:
        """Of the images that it looks at, in pixels; others are resized."""
        return self.net.size

    @property
    def upper(self) -> int:
        """How many of the features, the first ones, are of its last block."""
        return self.net.body.frozen_upper

    @cached_property
    def key(self) -> str:
        """Equal where the features of equal images are: by net, weights, size and precision."""
        facts = (VERSION, self.name, self.size, self.normalise, precision(self.device))
        digest = hashlib.sha256(repr(facts).encode())
        for name, tensor in self.net.state_dict().items():
            if not name.startswith("head."):
                digest.update(name.encode())
                digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def features(self, images: Tensor) -> Tensor:
        """(N, H, W, 3) bytes of any size to (N, width) floats, both on the CPU.

        A transformer's are those of several of its tokens, another net's are its own.
        """
        places = getattr(self.net.body, "tokens", (self.size // PLACE) ** 2)
        batches = torch.split(images, max(1, PLACES[self.device.type] // max(1, places)))
        if self.device.type == "cpu" and len(batches) > 1:
            return torch.cat(side_by_side(self._batch, batches))
        with uncompiled():
            return torch.cat([self._batch(part) for part in batches])

    def __call__(self, images: npt.NDArray[np.uint8]) -> Floats:
        """As `features`, from an array to an array."""
        found: Floats = self.features(
            torch.from_numpy(np.require(images, requirements=["C", "W"]))
        ).numpy()
        return found

    @torch.inference_mode()
    def _batch(self, images: Tensor) -> Tensor:
        levels = images.to(self.device).permute(0, 3, 1, 2).float()
        colours = finetune.COLOURS[self.normalise]
        mean, std = (torch.tensor(c, device=self.device) for c in (colours.mean, colours.std))
        views = (levels / 255 - mean[:, None, None]) / std[:, None, None]
        dtype = precision(self.device)
        with torch.autocast(self.device.type, dtype) if dtype else nullcontext():
            return self.net.frozen_features(views).cpu()


def precision(device: torch.device) -> torch.dtype | None:
    """bfloat16 on a GPU and on a CPU that multiplies it itself; None is single precision."""
    return torch.bfloat16 if device.type == "cuda" or native_bf16() else None


def frozen(weights: str, size: int, device: torch.device, net: str | None = None) -> Frozen:
    """The net of pre-trained weights for images of `size` pixels, or of a multiple of its patch.

    `net` is needed where the weights do not tell it, as for those of timm's nets.
    """
    found = locate(weights)
    colours = found.normalise
    if net is None:
        made = recognise(found.path)
        size = max(1, round(size / made.patch)) * made.patch
        net = made.at(size, made.patch)
    if is_timm(net):
        from .foreign import published

        colours = published(net).normalise
    model = build_net(FROZEN + net, 1, size)
    assert isinstance(model, FrozenNet)
    load_weights(model, found.path)
    colours = colours or colours_of(net)
    return Frozen(model.eval().to(device), net, colours, found.origin)
