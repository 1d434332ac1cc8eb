"""Tone curves: the operations that map each level 0 … 255 to another one.

All of them are rows of one table, from which a per-channel offset is subtracted before rounding
down. The offset is zero but for `stretch`, whose row is chosen by the channel's span.
"""

from __future__ import annotations

import torch
from torch import Tensor

LEVELS = 256
IDENTITY = 255  # rows 0 … 255: stretch a span of that many levels to 255; 255 changes nothing
SOLARIZE = 512  # row 512 - t: invert levels from t on, for t of 0 … 256
POSTERIZE = 513  # row 513 + b: keep the upper b bits, for b of 0 … 8


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
