"""The views of an image that training and testing ask for: plain, weak and strong."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..machine.gpu import own_kernels, why_no_triton
from .policy import Policy
from .randaugment import RandAugment
from .stream import uniform

VIEWS = ("plain", "weak", "strong")
LARGEST = 256  # side that the kernel has views of: for larger ones it takes minutes to compile
QUICK = 96  # side of the largest views whose kernel is compiled within seconds


@cache
def _kernel() -> Callable[..., Tensor] | None:
    """The GPU kernel, or None where it cannot be compiled."""
    if why_no_triton() is not None:
        return None
    from .kernel import render

    return render


def reflected(side: int, border: int, device: torch.device | None = None) -> Tensor:
    """Which pixel of 0 … side-1 lies at each position of the padded line, edge not repeated."""
    before = torch.arange(border, 0, -1, device=device)
    line = torch.arange(side, device=device)
    after = torch.arange(side - 2, side - 2 - border, -1, device=device)
    return torch.cat((before, line, after))


class Crop(nn.Module):
    """Cut `size` x `size` pixels out of each image at its own place, mirrored or not."""

    DRAWS = 4  # row, column, horizontal flip, vertical flip

    reflect: Tensor
    line: Tensor
    mirror: Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy
        line = torch.arange(policy.size)
        self.register_buffer("reflect", reflected(policy.size, policy.border), persistent=False)
        self.register_buffer("line", line, persistent=False)
        self.register_buffer("mirror", policy.size - 1 - 2 * line, persistent=False)

    def forward(self, images: Tensor, draws: Tensor) -> Tensor:
        """uint8 (N, 3, H, W) and float64 draws (N, 4) to uint8 (N, 3, size, size)."""
        height, width = images.shape[-2:]
        rows = self._source(height, draws[:, 0], draws[:, 3], self.policy.vertical_flip)
        columns = self._source(width, draws[:, 1], draws[:, 2], self.policy.horizontal_flip)
        source = (rows * width)[:, :, None] + columns[:, None, :]
        return take(images, source)

    def _source(self, side: int, place: Tensor, coin: Tensor, flip: bool) -> Tensor:
        """For each output position along one axis, the pixel of the image it shows: (N, size)."""
        policy = self.policy
        starts = side + 2 * policy.border - policy.size + 1
        position = (place * starts).long()[:, None] + self.line
        if flip:
            position = position + (coin < 0.5)[:, None] * self.mirror
        if side == policy.size:
            return self.reflect[position]
        return reflected(side, policy.border, place.device)[position]


def take(images: Tensor, source: Tensor) -> Tensor:
    """Pixel `source[n, y, x]`, counted along the rows of image n, of all three channels."""
    n, channels = images.shape[:2]
    index = source.flatten(1)[:, None].expand(-1, channels, -1)
    return images.flatten(2).gather(2, index).view(n, channels, *source.shape[1:])


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
