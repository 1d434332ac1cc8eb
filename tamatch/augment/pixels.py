"""One operation on each image of a batch, whichever that is: warp, tone curve, blend.

Images are float32 (N, 3, H*W) and hold whole levels 0 … 255. Float32 is exact here: every sum
stays below 2^24 and no quotient that is rounded comes near a rounding boundary, so that neither
fused multiply-adds nor approximate division change a level. The one exception is the last line,
which follows Pillow's own float32 arithmetic and may differ by one level where that is fused.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .curves import apply_curves
from .settings import Settings


def operate(x: Tensor, settings: Settings, curves: Tensor, width: int) -> Tensor:
    """Apply to each image the operation its settings describe; `curves` is the curve table."""
    x = x.gather(2, settings.source.expand_as(x)) * settings.seen
    x = apply_curves(x, settings.curve, settings.stretch, settings.equalize, curves)
    grey = luma(x)
    towards = torch.addcmul(settings.to_mean * mean_level(grey, width), settings.to_grey, grey)
    towards = torch.addcmul(towards, settings.to_blur, blurred(x, width))
    # Pillow rounds the product before it adds, which `addcmul` does not.
    return (x - towards).mul_(settings.keep).add_(towards).floor_()


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
