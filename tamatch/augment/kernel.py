"""A whole view by one GPU kernel: draws, crop, operations, cutout and normalisation.

One program makes one view. It takes the same steps with the same numbers as the modules beside
it, which are the reference and the way without a GPU, and gives the same levels. What a program
must read at another place than it wrote goes through a scratch row of its own.

A program has a power of two of positions, more than the image has pixels unless its side is one,
too. What stands at the others is never used and may be any number: every load and store of
positions is masked by `inside`. Inside, levels are whole numbers of 0 to 255 after every operation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from .ops import LEVELS
from .policy import CUTOUT_FILL
from .stream import keys

if TYPE_CHECKING:
    from .views import Augment

_RADIANS = tl.constexpr(-(math.pi / 180))
_GOLDEN = tl.constexpr(0x9E3779B9)
_LEVELS = tl.constexpr(LEVELS)
_ONE = tl.constexpr(1 << 16)  # one pixel in fixed point
_RED, _GREEN, _BLUE = (tl.constexpr(w / 65536) for w in (19595, 38470, 7471))
_FILL_RED, _FILL_GREEN, _FILL_BLUE = (tl.constexpr(float(level)) for level in CUTOUT_FILL)


@triton.jit
def _mix(x):
    """`stream._mix` on unsigned words, which wrap by themselves."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _draw(row, number):
    """The uniform number at this address, as float64."""
    word = _mix(row ^ (number.to(tl.uint32) * _GOLDEN))
    return (word >> 8).to(tl.float64) * 5.9604644775390625e-08  # 2^-24


@triton.jit
def _line(
    position, place, coin, side, SIZE: tl.constexpr, BORDER: tl.constexpr, FLIP: tl.constexpr
):
    """Which pixel of a line of the image each position of the view shows.

    Of 0 to `side` - 1 for the positions inside, as the border is less than SIZE, and SIZE at most
    `side` (`Policy`, `Augment`).
    """
    at = position + (place * (side + 2 * BORDER - SIZE + 1)).to(tl.int32)
    if FLIP:
        at += tl.where(coin < 0.5, SIZE - 1 - 2 * position, 0)
    at = tl.abs(at - BORDER)
    return tl.where(at < side, at, 2 * (side - 1) - at)


@triton.jit
def _warp(x, scratch, at, inside, source, seen):
    """Each position shows the pixel at `source`, or black."""
    tl.debug_barrier()
    tl.store(scratch + at, x, inside)
    tl.debug_barrier()
    return tl.load(scratch + source, inside & seen, 0.0)


@triton.jit
def _curve(x, inside, row, stretch, table):
    """Look each level up; a channel to be stretched chooses the row by its span.

    Rows are of 0 to 521, spans of 1 to 255, and the table has 522 rows (`ops.curve_table`).
    """
    low = tl.min(tl.where(inside, x, 255.0))
    high = tl.max(tl.where(inside, x, 0.0))
    stretched = stretch & (high > low)
    first = tl.where(stretched, high - low, row).to(tl.int32) * _LEVELS
    offset = tl.load(table + first + low.to(tl.int32))
    levels = tl.load(table + first + x.to(tl.int32), inside, 0.0)
    return tl.floor(levels - tl.where(stretched, offset, 0.0)).to(tl.float32)


@triton.jit
def _equalize(x, scratch, inside, pixels, spare):
    """Flatten the histogram of a channel; `spare` positions lie outside the image.

    A scratch row has room for all levels.
    """
    level = tl.arange(0, _LEVELS)
    histogram = tl.histogram(tl.where(inside, x, 0.0).to(tl.int32), _LEVELS)
    histogram -= tl.where(level == 0, spare, 0)
    high = tl.max(tl.where(inside, x, 0.0)).to(tl.int32)
    counted = pixels - tl.sum(tl.where(level == high, histogram, 0))
    step = tl.floor((counted + 0.25) / 255.0)
    below = tl.cumsum(histogram, 0) - histogram
    flat = tl.floor((below + tl.floor(step / 2) + 0.25) / tl.maximum(step, 1.0))
    curve = tl.where(step > 0, tl.minimum(flat, 255.0), level.to(tl.float32))
    tl.debug_barrier()
    tl.store(scratch + level, curve)
    tl.debug_barrier()
    return tl.load(scratch + x.to(tl.int32), inside, 0.0)


@triton.jit
def _blurred(x, scratch, at, inside, inner, SIZE: tl.constexpr):
    """The 3 x 3 mean in which the centre counts five times; the image itself on the border.

    `inner` are the pixels that have all eight neighbours.
    """
    tl.debug_barrier()
    tl.store(scratch + at, x, inside)
    tl.debug_barrier()
    total = 4 * x
    for dy in tl.static_range(-1, 2):
        for dx in tl.static_range(-1, 2):
            total += tl.load(scratch + at + (dy * SIZE + dx), inner, 0.0)
    # thirteenths have no ties, so that any rounding to the nearest is the same
    return tl.where(inner, tl.floor(total * 0.07692307692307693 + 0.5), x)


@triton.jit
def _blend(x, towards, keep):
    return tl.floor((x - towards) * keep + towards)


@triton.jit(do_not_specialize=["key", "second_key"])  # or some seeds would compile it once more
def _render(
    images, out, scratch, step, slot, key, second_key, base, slope, low, span, curves, scale, shift,
    height, width,
    SIZE: tl.constexpr, PIXELS: tl.constexpr, POSITIONS: tl.constexpr, BORDER: tl.constexpr,
    MIRROR: tl.constexpr, TURN: tl.constexpr, OPERATIONS: tl.constexpr, NUMBERS: tl.constexpr,
    ROUNDS: tl.constexpr, CUTOUT: tl.constexpr, SCRATCH: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0)  # as many as `slot` has numbers; of `step` there is one
    batch = _mix(tl.load(step).to(tl.uint32) ^ key.to(tl.uint32)) ^ second_key.to(tl.uint32)
    words = _mix(tl.load(slot + n).to(tl.uint32) ^ batch)
    at = tl.arange(0, POSITIONS)
    inside = at < PIXELS
    y, x = at // SIZE, at % SIZE
    scratch += n.to(tl.int64) * 3 * SCRATCH

    zero = tl.program_id(1)  # a zero that is no constant
    from_y = _line(y, _draw(words, zero), _draw(words, zero + 3), height, SIZE, BORDER, TURN)
    from_x = _line(x, _draw(words, zero + 1), _draw(words, zero + 2), width, SIZE, BORDER, MIRROR)
    source = images + n.to(tl.int64) * 3 * height * width + from_y * width + from_x
    red = tl.load(source, inside, 0).to(tl.float32)
    green = tl.load(source + height * width, inside, 0).to(tl.float32)
    blue = tl.load(source + 2 * height * width, inside, 0).to(tl.float32)

    for number in range(ROUNDS):
        # draws are below 1, so that it is below OPERATIONS: the rows of the four tables
        operation = (_draw(words, zero + 4 + 2 * number) * OPERATIONS).to(tl.int32)
        draw = _draw(words, zero + 5 + 2 * number)
        magnitude = tl.load(low + operation) + tl.load(span + operation) * draw
        base_of, slope_of = base + operation * NUMBERS, slope + operation * NUMBERS
        # twelve columns: the NUMBERS of `settings`
        degrees = tl.load(base_of) + tl.load(slope_of) * magnitude
        shear_x = tl.load(base_of + 1) + tl.load(slope_of + 1) * magnitude
        shear_y = tl.load(base_of + 2) + tl.load(slope_of + 2) * magnitude
        move_x = tl.load(base_of + 3) + tl.load(slope_of + 3) * magnitude
        move_y = tl.load(base_of + 4) + tl.load(slope_of + 4) * magnitude
        curve = tl.floor(tl.load(base_of + 5) + tl.load(slope_of + 5) * magnitude)
        stretch = tl.load(base_of + 6) > 0
        equalize = tl.load(base_of + 7) > 0
        keep = (tl.load(base_of + 8) + tl.load(slope_of + 8) * magnitude).to(tl.float32)
        to_mean, to_grey = tl.load(base_of + 9) > 0, tl.load(base_of + 10) > 0
        to_blur = tl.load(base_of + 11) > 0

        if (degrees != 0) | (shear_x != 0) | (shear_y != 0) | (move_x != 0) | (move_y != 0):
            angle = degrees * _RADIANS
            cos, sin = tl.cos(angle), tl.sin(angle)
            bx, dy = sin + shear_x, shear_y - sin
            half: tl.constexpr = SIZE / 2
            c = half - (cos * half + sin * half) + (cos + bx) * 0.5
            f = half - (cos * half - sin * half) + (cos + dy) * 0.5
            ia = tl.floor(cos * _ONE + 0.5).to(tl.int32)
            ib = tl.floor(bx * _ONE + 0.5).to(tl.int32)
            ic = tl.floor(c * _ONE + 0.5).to(tl.int32)
            id = tl.floor(dy * _ONE + 0.5).to(tl.int32)
            iff = tl.floor(f * _ONE + 0.5).to(tl.int32)
            ic += tl.floor(move_x * SIZE + 0.5).to(tl.int32) * _ONE
            iff += tl.floor(move_y * SIZE + 0.5).to(tl.int32) * _ONE
            sx = (y * ib + ic + x * ia) >> 16
            sy = (y * ia + iff + x * id) >> 16
            seen = (sx >= 0) & (sx < SIZE) & (sy >= 0) & (sy < SIZE)
            there = sy * SIZE + sx
            red = _warp(red, scratch, at, inside, there, seen)
            green = _warp(green, scratch + SCRATCH, at, inside, there, seen)
            blue = _warp(blue, scratch + 2 * SCRATCH, at, inside, there, seen)
        if stretch | (curve != 255):
            red = _curve(red, inside, curve, stretch, curves)
            green = _curve(green, inside, curve, stretch, curves)
            blue = _curve(blue, inside, curve, stretch, curves)
        if equalize & (PIXELS >= _LEVELS):
            spare: tl.constexpr = POSITIONS - PIXELS
            red = _equalize(red, scratch, inside, PIXELS, spare)
            green = _equalize(green, scratch, inside, PIXELS, spare)
            blue = _equalize(blue, scratch, inside, PIXELS, spare)
        if keep != 1:
            if to_blur:
                inner = inside & (y > 0) & (y < SIZE - 1) & (x > 0) & (x < SIZE - 1)
                red = _blend(red, _blurred(red, scratch, at, inside, inner, SIZE), keep)
                green = _blend(green, _blurred(green, scratch, at, inside, inner, SIZE), keep)
                blue = _blend(blue, _blurred(blue, scratch, at, inside, inner, SIZE), keep)
            else:
                grey = tl.floor(red * _RED + green * _GREEN + blue * _BLUE + 0.5)
                total = tl.sum(tl.where(inside, grey, 0.0).to(tl.int32)).to(tl.float64)
                mean = tl.floor((total + (PIXELS / 2 + 0.25)) / PIXELS).to(tl.float32)
                towards = tl.where(to_grey, grey, tl.where(to_mean, mean, 0.0))
                red = _blend(red, towards, keep)
                green = _blend(green, towards, keep)
                blue = _blend(blue, towards, keep)
    if CUTOUT > 0:
        first = zero + 4 + 2 * ROUNDS
        side = _draw(words, first) * (CUTOUT * SIZE)
        left = tl.floor(tl.maximum(_draw(words, first + 1) * SIZE - side / 2, 0.0))
        top = tl.floor(tl.maximum(_draw(words, first + 2) * SIZE - side / 2, 0.0))
        right = tl.minimum(left + side, SIZE).to(tl.int32)
        bottom = tl.minimum(top + side, SIZE).to(tl.int32)
        erased = (x >= left.to(tl.int32)) & (x <= right) & (y >= top.to(tl.int32)) & (y <= bottom)
        red = tl.where(erased, _FILL_RED, red)
        green = tl.where(erased, _FILL_GREEN, green)
        blue = tl.where(erased, _FILL_BLUE, blue)
    out += n.to(tl.int64) * 3 * PIXELS + at * 3  # scale and shift are of three channels
    tl.store(out, tl.load(shift) + red * tl.load(scale), inside)
    tl.store(out + 1, tl.load(shift + 1) + green * tl.load(scale + 1), inside)
    tl.store(out + 2, tl.load(shift + 2) + blue * tl.load(scale + 2), inside)


def render(
    augment: Augment, images: Tensor, step: Tensor, slot: Tensor, address: int, rounds: int | None
) -> Tensor:
    """Views of uint8 images (N, 3, H, W), float32 and channels-last; `rounds` as in `Augment`."""
    policy, table = augment.policy, augment.randaugment.table
    count, size = len(images), policy.size
    shape = (count, 3, size, size)
    out = torch.empty(shape, device=images.device, memory_format=torch.channels_last)
    scratch = torch.empty(count, 3, max(size * size, LEVELS), device=images.device)
    key, second_key = (word + 2**32 for word in keys(augment.seed, address))  # always 64 bits
    positions = triton.next_power_of_2(size * size)
    with torch.cuda.device_of(images):  # Triton would take the current device
        _render[(count,)](
            images.contiguous(), out, scratch, step, slot, key, second_key,
            table.base, table.slope, table.low, table.span, augment.randaugment.curves,
            augment.scale, augment.shift, *images.shape[2:],
            SIZE=size, PIXELS=size * size, POSITIONS=positions, BORDER=policy.border,
            MIRROR=policy.horizontal_flip, TURN=policy.vertical_flip,
            OPERATIONS=len(policy.operations), NUMBERS=table.base.shape[1],
            ROUNDS=rounds or 0, CUTOUT=0.0 if rounds is None else policy.cutout,
            SCRATCH=scratch.shape[-1], num_warps=max(4, min(32, positions // 256)),
            enable_fp_fusion=False,  # products are rounded before they are added, as Pillow does
        )  # fmt: skip
    return out
