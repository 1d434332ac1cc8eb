"""The weak view: a random crop of the image with reflected borders, and flips."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .policy import Policy


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
