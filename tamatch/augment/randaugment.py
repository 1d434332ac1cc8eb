"""RandAugment with an own policy for every image, then cutout."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .curves import curve_table
from .geometry import Grid
from .pixels import operate
from .policy import CUTOUT_FILL, Policy
from .settings import SettingsTable

PILLOW_ABOVE = 32  # side in pixels above which Pillow is faster than the batched path on one core


class RandAugment(nn.Module):
    """`count` operations drawn with replacement, each with its own magnitude, then a cutout."""

    fill: Tensor
    curves: Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy
        self.table = SettingsTable(policy.operations)
        fill = torch.tensor(CUTOUT_FILL, dtype=torch.float32)[:, None]
        self.register_buffer("fill", fill, persistent=False)
        self.register_buffer("curves", curve_table(), persistent=False)

    @property
    def draws(self) -> int:
        """How many uniform numbers each image needs."""
        return 2 * self.policy.count + 3

    def choose(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """The operations' codes and magnitudes that float64 draws stand for, (count, N) each."""
        rounds = draws[:, : 2 * self.policy.count].T
        codes = (rounds[0::2] * len(self.policy.operations)).long()
        return codes, self.table.magnitudes(codes, rounds[1::2])

    def forward(self, images: Tensor, draws: Tensor) -> Tensor:
        """uint8 (N, 3, H, W) and float64 draws (N, draws) to whole levels in float32."""
        height, width = images.shape[-2:]
        grid = Grid.of(height, width, images.device)
        codes, magnitudes = self.choose(draws)
        on_cpu = images.device.type == "cpu" and not torch.compiler.is_compiling()
        if on_cpu and height * width > PILLOW_ABOVE**2:
            x = self._one_by_one(images, codes, magnitudes)
        else:
            x = images.flatten(2).to(torch.float32)
            for settings in self.table(codes, magnitudes, grid).rounds():
                x = operate(x, settings, self.curves, width)
        if self.policy.cutout > 0:
            box = cutout_box(draws[:, -3:], self.policy.cutout, height, width)
            x = cutout(x, box, self.fill, grid)
        return x.view(images.shape)

    def _one_by_one(self, images: Tensor, codes: Tensor, magnitudes: Tensor) -> Tensor:
        from . import pillow_path

        names = [[self.policy.operations[code] for code in row] for row in codes.T.tolist()]
        changed = pillow_path.operate(images, names, magnitudes.T.tolist())
        return changed.flatten(2).to(torch.float32)


def cutout_box(draws: Tensor, largest: float, height: int, width: int) -> Tensor:
    """Left, top, right, bottom of the erased square, inclusive, int64 (N, 4).

    Draws (N, 3) are its side, as a part of `largest` of the width, and the place of its centre.
    """
    side = draws[:, 0] * (largest * width)
    left = (draws[:, 1] * width - side / 2).clamp(min=0).floor()
    top = (draws[:, 2] * height - side / 2).clamp(min=0).floor()
    right, bottom = (left + side).clamp(max=width), (top + side).clamp(max=height)
    return torch.stack((left, top, right, bottom), dim=1).long()


def cutout(x: Tensor, box: Tensor, fill: Tensor, grid: Grid) -> Tensor:
    """Paint the box of each image (N, 3, H*W), its edges included, in one colour."""
    left, top, right, bottom = box[:, :, None].unbind(1)
    in_columns = (grid.columns >= left) & (grid.columns <= right)
    in_rows = (grid.rows >= top) & (grid.rows <= bottom)
    erased = (in_rows[:, :, None] & in_columns[:, None, :]).flatten(1)
    return torch.where(erased[:, None], fill, x)
