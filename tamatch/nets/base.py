"""What every net of this package is: images in, `Out` out, and a few facts about itself."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import cast

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..machine.precision import without_autocast
from ..types import Out


def uncompiled(device: torch.device) -> AbstractContextManager[None]:
    """Run nets eagerly outside of a step: they are compiled for its shapes only."""
    cuda = device.type == "cuda"  # nothing is compiled elsewhere, and torch's compiler loads slowly
    return torch.compiler.set_stance("force_eager") if cuda else nullcontext()


class Net(nn.Module):
    """A classifier that also shows its features. Subclasses compute features; `finish` the rest."""

    head: nn.Linear
    channels_last = True  # whether it can work on images and weights in that order
    headless = False  # whether `loadable` is the net without its head
    independent = False  # whether what it says about an image depends on no other one of the batch
    has_cuda_code = False  # whether some of it, once accelerated, is compiled by NVRTC
    rehearsable = False  # whether it has kernels of our own, which are compiled when first started
    sync_point: str | None = None  # where it makes the host wait for the device: no CUDA graph then

    def __init__(self, *, classes: int, width: int, map_width: int) -> None:
        super().__init__()
        self.classes = classes
        self.width = width  # length of Out.features rows
        self.map_width = map_width  # numbers of an image in Out.map

    def forward(self, images: Tensor) -> Out:
        """Classify (N, 3, H, W) images."""
        raise NotImplementedError

    @property
    def frozen_width(self) -> int:
        """Length of a row of `frozen_features`."""
        return self.width

    def frozen_features(self, images: Tensor) -> Tensor:
        """What is worth knowing of (N, 3, H, W) images where the net is not trained."""
        return cast(Out, self(images)).features.float()

    def accelerate(self, *, compiling: bool = True, kernels: bool = True) -> None:
        """Become as fast as possible on a GPU; changes no state and no result but by rounding.

        Without `compiling`, only by what is ready within seconds; without `kernels`, by torch's
        compiler alone.
        """
        if compiling:
            self.compile()

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """The layer a parameter belongs to, counted from the stem (0), and the head's layer."""
        raise UsageError(
            "--layer-decay needs the depth of each layer, which this net does not provide: give "
            "it a method depth_of(name) that returns the layer of a parameter and that of the "
            "head, or use --layer-decay 1."
        )

    def loadable(self) -> nn.Module:
        """The part whose parameter names are those of weight files."""
        return self

    def converted(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """A file's tensors with the names and shapes that the net's own library gives them."""
        return tensors

    def finish(self, features: Tensor, feature_map: Tensor) -> Out:
        """Apply the head in the parameters' own precision, also where the net ran in bfloat16.

        Thresholds compare probabilities with 0.95; bfloat16 logits would blur that by about 0.002.
        """
        dtype = self.head.weight.dtype
        with without_autocast(features.device):
            features = features.to(dtype)
            return Out(self.head(features), features, feature_map)


class Wrapped(Net):
    """A net of other people's making, `model`, behind this package's interface."""

    def __init__(self, model: nn.Module, *, classes: int, width: int, map_width: int) -> None:
        super().__init__(classes=classes, width=width, map_width=map_width)
        self.model = model

    def loadable(self) -> nn.Module:
        """Weight files name the parameters without our wrapper."""
        return self.model
