"""The views of an image that training and testing ask for."""

from __future__ import annotations

from functools import cache
from typing import Protocol

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..machine.gpu import own_kernels, why_no_triton
from .policy import Policy
from .randaugment import RandAugment
from .stream import uniform
from .weak import Crop

VIEWS = ("plain", "weak", "strong")
LARGEST = 256  # side that the kernel has views of: for larger ones it takes minutes to compile
QUICK = 96  # side of the largest views whose kernel is compiled within seconds


class _Render(Protocol):
    def __call__(
        self, augment: Augment, images: Tensor, step: Tensor, slot: Tensor, address: int, *,
        strong: bool,
    ) -> Tensor: ...  # fmt: skip


@cache
def _kernel() -> _Render | None:
    """The GPU kernel; none where it cannot be compiled."""
    if why_no_triton() is not None:
        return None
    from .kernel import render

    return render


class Augment(nn.Module):
    """Batches of uint8 images to normalised float views, each image changed in its own way.

    `plain` only normalises, `weak` crops and flips, `strong` crops and flips, then applies
    RandAugment and cutout. An image's view depends on the policy, the seed, `step`, its `slot`
    and the stream alone: not on the rest of the batch, the device or what was drawn before.
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self, policy: Policy, seed: int, *, kernels: bool = True, largest: int = LARGEST
    ) -> None:
        super().__init__()
        self.policy = policy
        self.largest = largest
        self.seed = seed
        self.kernels = own_kernels(kernels)  # whether a GPU makes a view by one kernel
        self.crop = Crop(policy)
        self.randaugment = RandAugment(policy)
        mean = torch.tensor(policy.mean, dtype=torch.float64)[:, None, None]
        std = torch.tensor(policy.std, dtype=torch.float64)[:, None, None]
        self.register_buffer("scale", (1 / (255 * std)).float(), persistent=False)
        self.register_buffer("shift", (-mean / std).float(), persistent=False)

    def forward(self, view: str, images: Tensor, step: Tensor, slot: Tensor, stream: int) -> Tensor:
        """uint8 (N, 3, H, W) to float32 (N, 3, size, size).

        `step` is a 0-dim int64 tensor, `slot` int64 (N,), the images' positions in the whole
        batch. Each (view, stream) pair draws its own numbers.
        """
        if view not in VIEWS:
            raise UsageError(f'augmentation: unknown view "{view}"; known: {", ".join(VIEWS)}')
        self._check(view, images)
        if view == "plain":
            return self._normalise(images)
        address = len(VIEWS) * stream + VIEWS.index(view)
        fits = self.kernels and images.is_cuda and self.policy.size <= self.largest
        if fits and (render := _kernel()) is not None:
            return render(self, images, step, slot, address, strong=view == "strong")
        return self.by_modules(images, step, slot, address, strong=view == "strong")

    def by_modules(
        self, images: Tensor, step: Tensor, slot: Tensor, address: int, *, strong: bool
    ) -> Tensor:
        """The views without a kernel of our own: on any device, and the reference for that one."""
        count = self.crop.DRAWS + (self.randaugment.draws if strong else 0)
        draws = uniform(self.seed, step, slot, address, count).double()
        cropped: Tensor = self.crop(images, draws[:, : self.crop.DRAWS])
        if not strong:
            return self._normalise(cropped)
        return self._normalise(self.randaugment(cropped, draws[:, self.crop.DRAWS :]))

    def _normalise(self, levels: Tensor) -> Tensor:
        return torch.addcmul(self.shift, levels.to(torch.float32), self.scale)

    def _check(self, view: str, images: Tensor) -> None:
        size, shape = self.policy.size, tuple(images.shape)
        if images.dtype != torch.uint8 or len(shape) != 4 or shape[1] != 3:
            raise UsageError(
                f"augmentation: expected uint8 (N, 3, H, W), got {images.dtype} {shape}"
            )
        fits = shape[2:] == (size, size) if view == "plain" else min(shape[2:]) >= size
        if not fits:
            raise UsageError(f"augmentation: images of {shape[2:]} do not fit size {size}")
