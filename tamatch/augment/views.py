"""The views of an image that training and testing ask for: plain, weak, medium and strong.

In a medium or strong view every image draws its own operations (RandAugment), then a cutout. On a
CPU, large images are changed one by one by Pillow's own operations, which is faster there. The
draws mean the same on both paths, so both give the same distribution, and the same pixels but for
the last level of the enhance operations.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor, nn

from ..errors import UsageError
from ..machine.gpu import own_kernels, why_no_triton
from .ops import Grid, SettingsTable, curve_table, operate
from .policy import CUTOUT_FILL, Policy
from .stream import uniform

VIEWS = ("plain", "weak", "medium", "strong")
ADDRESSES = {"medium": 0, "weak": 1, "strong": 2}  # of the draws of each view in a stream
LARGEST = 256  # side that the kernel has views of: for larger ones it takes minutes to compile
PILLOW_ABOVE = 32  # side in pixels above which Pillow is faster than the batched path on one core
QUICK = 96  # side of the largest views whose kernel is compiled within seconds

Picture = Image.Image


def _affine(image: Picture, matrix: tuple[float, ...]) -> Picture:
    return image.transform(image.size, Image.Transform.AFFINE, matrix)


PILLOW_OPERATIONS: dict[str, Callable[[Picture, float], Picture]] = {
    "AutoContrast": lambda x, m: ImageOps.autocontrast(x),
    "Brightness": lambda x, m: ImageEnhance.Brightness(x).enhance(m),
    "Color": lambda x, m: ImageEnhance.Color(x).enhance(m),
    "Contrast": lambda x, m: ImageEnhance.Contrast(x).enhance(m),
    "Equalize": lambda x, m: ImageOps.equalize(x),
    "Identity": lambda x, m: x,
    "Posterize": lambda x, m: ImageOps.posterize(x, int(m)),
    "Rotate": lambda x, m: x.rotate(m),
    "Sharpness": lambda x, m: ImageEnhance.Sharpness(x).enhance(m),
    "ShearX": lambda x, m: _affine(x, (1, m, 0, 0, 1, 0)),
    "ShearY": lambda x, m: _affine(x, (1, 0, 0, m, 1, 0)),
    "Solarize": lambda x, m: ImageOps.solarize(x, math.ceil(m)),
    "TranslateX": lambda x, m: _affine(x, (1, 0, m * x.width, 0, 1, 0)),
    "TranslateY": lambda x, m: _affine(x, (1, 0, 0, 0, 1, m * x.height)),
}
"""Each operation as a function of one image and its magnitude."""


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
        index = source.flatten(1)[:, None].expand(-1, 3, -1)
        return images.flatten(2).gather(2, index).view(len(images), 3, *source.shape[1:])

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


class RandAugment(nn.Module):
    """Operations drawn with replacement, each with its own magnitude, then a cutout."""

    fill: Tensor
    curves: Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy
        self.table = SettingsTable(policy.operations)
        fill = torch.tensor(CUTOUT_FILL, dtype=torch.float32)[:, None]
        self.register_buffer("fill", fill, persistent=False)
        self.register_buffer("curves", curve_table(), persistent=False)

    @staticmethod
    def draws(rounds: int) -> int:
        """How many uniform numbers an image needs for so many operations and the cutout."""
        return 2 * rounds + 3

    def choose(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """The operations' codes and magnitudes that float64 draws stand for, (rounds, N) each."""
        rounds = draws[:, :-3].T
        codes = (rounds[0::2] * len(self.policy.operations)).long()
        return codes, self.table.magnitudes(codes, rounds[1::2])

    def forward(self, images: Tensor, draws: Tensor) -> Tensor:
        """uint8 (N, 3, H, W) and float64 draws, as many as `draws`, to whole levels in float32."""
        if len(images) == 0:
            return images.to(torch.float32)
        height, width = images.shape[-2:]
        grid = Grid.of(height, width, images.device)
        codes, magnitudes = self.choose(draws)
        on_cpu = images.device.type == "cpu" and not torch.compiler.is_compiling()
        if on_cpu and height * width > PILLOW_ABOVE**2:
            x = self._by_pillow(images, codes, magnitudes)
        else:
            x = images.flatten(2).to(torch.float32)
            for settings in self.table(codes, magnitudes, grid).rounds():
                x = operate(x, settings, self.curves, width)
        if self.policy.cutout > 0:
            box = cutout_box(draws[:, -3:], self.policy.cutout, height, width)
            x = cutout(x, box, self.fill, grid)
        return x.view(images.shape)

    def _by_pillow(self, images: Tensor, codes: Tensor, magnitudes: Tensor) -> Tensor:
        """Change uint8 images (N, 3, H, W) on the CPU, one after another."""
        rows = np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())
        for row, own_codes, own in zip(rows, codes.T.tolist(), magnitudes.T.tolist(), strict=True):
            picture = Image.fromarray(row)
            for code, magnitude in zip(own_codes, own, strict=True):
                picture = PILLOW_OPERATIONS[self.policy.operations[code]](picture, magnitude)
            row[:] = np.asarray(picture)
        return torch.from_numpy(rows).permute(0, 3, 1, 2).flatten(2).to(torch.float32)


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


class Augment(nn.Module):
    """Batches of uint8 images to normalised float views, each image changed in its own way.

    `plain` only normalises, `weak` crops and flips, `strong` crops and flips, then applies
    RandAugment and cutout, `medium` likewise with a single operation. An image's view depends on
    the policy, the seed, `step`, its `slot` and the stream alone: not on the rest of the batch, the
    device or what was drawn before.
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
        address, rounds = len(ADDRESSES) * stream + ADDRESSES[view], self.rounds(view)
        fits = self.kernels and images.is_cuda and self.policy.size <= self.largest
        if fits and (render := _kernel()) is not None:
            return render(self, images, step, slot, address, rounds)
        return self.by_modules(images, step, slot, address, rounds)

    def rounds(self, view: str) -> int | None:
        """How many operations a view has before its cutout; None: no cutout either."""
        most = self.policy.count
        return {"weak": None, "medium": min(1, most), "strong": most}[view]

    def by_modules(
        self, images: Tensor, step: Tensor, slot: Tensor, address: int, rounds: int | None
    ) -> Tensor:
        """The views without a kernel of our own: on any device, and the reference for that one."""
        count = self.crop.DRAWS + (0 if rounds is None else self.randaugment.draws(rounds))
        draws = uniform(self.seed, step, slot, address, count).double()
        cropped: Tensor = self.crop(images, draws[:, : self.crop.DRAWS])
        if rounds is None:
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
