"""RandAugment's operations on batches in which every image has its own operation and magnitude.

All fourteen operations are made of three steps that every image goes through: a warp, a tone
curve and a blend. An operation sets some numbers of these steps and leaves the others neutral,
so that one batch can mix all operations without asking which image has which.

Images are float32 (N, 3, H*W) and hold whole levels 0 … 255. Float32 is exact here: every sum
stays below 2^24 and no quotient that is rounded comes near a rounding boundary, so that neither
fused multiply-adds nor approximate division change a level. The one exception is the last line
of `operate`, which follows Pillow's own float32 arithmetic and may differ by one level where that
is fused.
"""

import math
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from .policy import RANGES

# Tone curves map each level 0 … 255 to another one. All are rows of one table, from which a
# per-channel offset is subtracted before rounding down: zero but for `stretch`, whose row is
# chosen by the channel's span.
LEVELS = 256
IDENTITY = 255  # rows 0 … 255: stretch a span of that many levels to 255; 255 changes nothing
SOLARIZE = 512  # row 512 - t: invert levels from t on, for t of 0 … 256
POSTERIZE = 513  # row 513 + b: keep the upper b bits, for b of 0 … 8
_ONE = 1 << 16  # one pixel in fixed point
_NEUTRAL = {
    "degrees": 0.0, "shear_x": 0.0, "shear_y": 0.0, "move_x": 0.0, "move_y": 0.0,
    "curve": float(IDENTITY), "stretch": 0.0, "equalize": 0.0,
    "keep": 1.0, "to_mean": 0.0, "to_grey": 0.0, "to_blur": 0.0,
}  # fmt: skip
_EFFECT: dict[str, dict[str, tuple[float, float]]] = {  # number = first + second * magnitude
    "AutoContrast": {"stretch": (1, 0)},
    "Brightness": {"keep": (0, 1)},
    "Color": {"keep": (0, 1), "to_grey": (1, 0)},
    "Contrast": {"keep": (0, 1), "to_mean": (1, 0)},
    "Equalize": {"equalize": (1, 0)},
    "Identity": {},
    "Posterize": {"curve": (POSTERIZE, 1)},
    "Rotate": {"degrees": (0, 1)},
    "Sharpness": {"keep": (0, 1), "to_blur": (1, 0)},
    "ShearX": {"shear_x": (0, 1)},
    "ShearY": {"shear_y": (0, 1)},
    "Solarize": {"curve": (SOLARIZE, -1)},
    "TranslateX": {"move_x": (0, 1)},
    "TranslateY": {"move_y": (0, 1)},
}


class Grid(NamedTuple):
    """Pixel positions of one image size."""

    rows: Tensor  # (H,) int32
    columns: Tensor  # (W,) int32
    inner: Tensor  # (H*W,) bool, all but the outermost pixels

    @classmethod
    def of(cls, height: int, width: int, device: torch.device) -> Self:
        """The positions in images of this size, made on the device itself."""
        inner = torch.zeros(height, width, dtype=torch.bool, device=device)
        inner[1:-1, 1:-1].fill_(True)
        rows, columns = (
            torch.arange(side, device=device, dtype=torch.int32) for side in (height, width)
        )
        return cls(rows, columns, inner.flatten())


def warp(
    degrees: Tensor, shear_x: Tensor, shear_y: Tensor, move_x: Tensor, move_y: Tensor, grid: Grid
) -> tuple[Tensor, Tensor]:
    """The pixel each position shows, (…, H*W) int64, and 1.0 where there is one, else 0.0.

    Arguments are float64 of any shape, of which all but one are zero. Rotation is about the centre,
    shear about the top left corner; moves are fractions of the image. As Pillow does, the affine
    map x' = a x + b y + c, y' = d x + a y + f is followed in 16-bit fixed point, to the nearest
    pixel, and moves are by whole pixels: the same whole numbers give the same pixels. c and f
    include the half pixel to the centre of the first pixel.
    """
    height, width = len(grid.rows), len(grid.columns)
    angle = degrees * -(math.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    b, d = sin + shear_x, shear_y - sin
    c = width / 2 - (cos * (width / 2) + sin * (height / 2)) + (cos + b) * 0.5
    f = height / 2 - (cos * (height / 2) - sin * (width / 2)) + (cos + d) * 0.5
    fixed = (torch.stack((cos, b, c, d, f)) * _ONE + 0.5).floor().int()
    a, b, c, d, f = fixed[..., None].unbind()
    c = c + (move_x * width + 0.5).floor().int()[..., None] * _ONE
    f = f + (move_y * height + 0.5).floor().int()[..., None] * _ONE
    x = (grid.rows * b + c)[..., :, None] + (grid.columns * a)[..., None, :]
    y = (grid.rows * a + f)[..., :, None] + (grid.columns * d)[..., None, :]
    x, y = x >> 16, y >> 16
    near_x, near_y = x.clamp(0, width - 1), y.clamp(0, height - 1)
    seen = (x == near_x) & (y == near_y)
    return near_x.add(near_y, alpha=width).flatten(-2).long(), seen.flatten(-2).to(torch.float32)


class Settings(NamedTuple):
    """What the three steps need to know of each image.

    Numbers have the shape (…, N, 1, 1) and maps (…, N, 1, H*W), to be spread over pixels
    (N, 3, H*W); a leading dimension counts the rounds.
    """

    source: Tensor  # map, int64: the pixel that each position shows
    seen: Tensor  # map: 0 where that lies outside the image
    curve: Tensor  # row of the table of tone curves
    stretch: Tensor  # bool: each channel is stretched to the full range instead
    equalize: Tensor  # bool: each channel's histogram is flattened instead
    keep: Tensor  # map: how much of the image stays; the rest becomes
    to_mean: Tensor  # 1: its mean grey
    to_grey: Tensor  # 1: itself in grey
    to_blur: Tensor  # 1: itself blurred; black where all three are 0

    def rounds(self) -> list["Settings"]:
        """The settings of each round."""
        return [Settings(*one) for one in zip(*(each.unbind() for each in self), strict=True)]


class SettingsTable(nn.Module):
    """Looks up the settings of each image's operation; `codes` count along `operations`."""

    base: Tensor
    slope: Tensor
    low: Tensor
    span: Tensor

    def __init__(self, operations: tuple[str, ...]) -> None:
        super().__init__()
        neutral = {name: (value, 0.0) for name, value in _NEUTRAL.items()}
        rows = [list((neutral | _EFFECT[name]).values()) for name in operations]
        ranges = [RANGES[name] for name in operations]
        base, slope = torch.tensor(rows, dtype=torch.float64).unbind(-1)
        low, high = torch.tensor(ranges, dtype=torch.float64).unbind(-1)
        self.register_buffer("base", base.contiguous(), persistent=False)
        self.register_buffer("slope", slope.contiguous(), persistent=False)
        self.register_buffer("low", low.contiguous(), persistent=False)
        self.register_buffer("span", high - low, persistent=False)

    def magnitudes(self, codes: Tensor, draws: Tensor) -> Tensor:
        """Uniform draws in [0, 1) scaled to the range of each image's operation, float64."""
        return self.low[codes] + self.span[codes] * draws

    def forward(self, codes: Tensor, magnitudes: Tensor, grid: Grid) -> Settings:
        """Settings of codes and float64 magnitudes (…, N) for images of one size."""
        numbers = self.base[codes] + self.slope[codes] * magnitudes[..., None]
        degrees, shear_x, shear_y, move_x, move_y, curve = numbers[..., :6].unbind(-1)
        source, seen = warp(degrees, shear_x, shear_y, move_x, move_y, grid)
        singles = numbers[..., 6:, None, None].to(torch.float32)
        stretch, equalize, keep, to_mean, to_grey, to_blur = singles.unbind(-3)
        return Settings(
            source=source[..., None, :],
            seen=seen[..., None, :],
            curve=curve.floor()[..., None, None].to(torch.float32),
            stretch=stretch > 0,
            equalize=equalize > 0,
            keep=torch.where(grid.inner | (to_blur == 0), keep, 1.0),
            to_mean=to_mean,
            to_grey=to_grey,
            to_blur=to_blur,
        )


def operate(x: Tensor, settings: Settings, curves: Tensor, width: int) -> Tensor:
    """Apply to each image the operation its settings describe; `curves` is the curve table."""
    x = x.gather(2, settings.source.expand_as(x)) * settings.seen
    x = apply_curves(x, settings.curve, settings.stretch, settings.equalize, curves)
    grey = luma(x)
    towards = torch.addcmul(settings.to_mean * mean_level(grey, width), settings.to_grey, grey)
    towards = torch.addcmul(towards, settings.to_blur, blurred(x, width))
    # Pillow rounds the product before it adds, which `addcmul` does not.
    return (x - towards).mul_(settings.keep).add_(towards).floor_()


def curve_table() -> Tensor:
    """The table, float64 (522, 256).

    Stretch rows hold level * (255 / span), rounded as Pillow's autocontrast rounds it. As a
    table, because a compiler that fuses the product into the subtraction that follows would
    skip this rounding and come out one level off where the exact result is a whole number.
    """
    levels = torch.arange(LEVELS, dtype=torch.float64)
    # True division of tensors: `255.0 / levels` would multiply by a rounded reciprocal.
    scale = torch.full_like(levels, 255).div(levels.clamp(min=1))
    stretch = scale[:, None] * levels
    thresholds = torch.arange(LEVELS, -1, -1)[:, None]
    solarize = torch.where(levels < thresholds, levels, 255 - levels)
    quantum = 2.0 ** torch.arange(8, -1, -1)[:, None]
    posterize = (levels / quantum).floor() * quantum
    return torch.cat((stretch, solarize, posterize))


def apply_curves(
    pixels: Tensor, curve: Tensor, stretch: Tensor, equalize: Tensor, table: Tensor
) -> Tensor:
    """Map the levels of float32 pixels (N, 3, H*W), each image by its own curve.

    Images with fewer pixels than levels look each pixel up in the table. For larger ones the
    curve of each channel is made first; only these have enough pixels for equalize to act.
    """
    low, high = pixels.amin(-1, keepdim=True), pixels.amax(-1, keepdim=True)
    stretch = stretch & (high > low)
    row = torch.where(stretch, high - low, curve)
    first = row * LEVELS
    offset = _look_up(table, first + low) * stretch
    if pixels.shape[-1] < LEVELS:
        return (_look_up(table, first + pixels) - offset).floor().to(torch.float32)
    curves = table.index_select(0, row.flatten().int()).view(*row.shape[:2], LEVELS)
    curves = (curves - offset).floor_().to(torch.float32)
    index = pixels.long()
    curves = torch.where(equalize, _equalized(index, high), curves)
    return curves.gather(2, index)


def _look_up(table: Tensor, position: Tensor) -> Tensor:
    """Entries of the table counted along its rows; 32-bit positions are the fastest."""
    return table.flatten().index_select(0, position.flatten().int()).view_as(position)


def _equalized(pixels: Tensor, brightest: Tensor) -> Tensor:
    """The curve that flattens the histogram of each channel (N, 3, 256)."""
    # Whole numbers: their sums do not depend on the order in which a device adds.
    histogram = pixels.new_zeros(*pixels.shape[:2], LEVELS, dtype=torch.int32)
    histogram.scatter_add_(2, pixels, torch.ones_like(histogram[:, :, :1]).expand(pixels.shape))
    below = histogram.cumsum(-1, dtype=torch.int32) - histogram
    counted = pixels.shape[-1] - histogram.gather(2, brightest.long())
    # A quarter of a count keeps quotients clear of whole numbers, however division rounds.
    step = ((counted + 0.25) / 255).floor()
    flat = ((below + (step / 2).floor() + 0.25) / step.clamp(min=1)).floor().clamp(max=255)
    identity = torch.arange(LEVELS, device=pixels.device, dtype=torch.float32)
    return torch.where(step > 0, flat, identity)


def luma(x: Tensor) -> Tensor:
    """Grey levels (N, 1, H*W): 19595 red + 38470 green + 7471 blue of 65536, rounded half up."""
    red, green, blue = x[:, 0:1], x[:, 1:2], x[:, 2:3]
    weighted = red * (19595 / 65536)
    weighted = weighted.add_(green, alpha=38470 / 65536).add_(blue, alpha=7471 / 65536)
    return weighted.add_(0.5).floor_()


def mean_level(grey: Tensor, width: int) -> Tensor:
    """The mean grey of each image (N, 1, 1), rounded half up."""
    count = grey.shape[-1]
    lines = grey.view(len(grey), 1, -1, width).sum(-1)  # float32 holds these, but not their total
    total = lines.sum(-1, keepdim=True, dtype=torch.float64)
    # A quarter of a level's share keeps the quotient clear of whole numbers.
    return ((total + (count / 2 + 0.25)) / count).floor_().to(torch.float32)


def blurred(x: Tensor, width: int) -> Tensor:
    """The 3 x 3 mean in which the centre counts five times; the outermost pixels are undefined.

    Sums run along the whole batch as one line of pixels, the fastest way to slide over it.
    """
    line = x.flatten()
    across = line[:-2] + line[1:-1] + line[2:]
    box = across[: -2 * width] + across[width:-width] + across[2 * width :]
    centre = line[width + 1 : -width - 1]
    mean = box.add_(centre, alpha=4).mul_(1 / 13).round_()  # thirteenths have no ties
    return functional.pad(mean, (width + 1, width + 1)).view_as(x)
