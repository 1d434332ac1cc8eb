"""Every operation against Pillow, pixel for pixel, on images and magnitudes of all kinds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tamatch.augment.ops import BY_NAME
from tamatch.augment.policy import OPERATIONS, RANGES
from tests.augment.oracle import ENHANCE, picture, pictures, pillow, tensor

SIZES = {(8, 8): 150, (16, 16): 100, (32, 32): 80, (33, 47): 60, (96, 96): 15, (224, 200): 5}


def apart(name: str, images: Tensor, magnitude: Tensor) -> int:
    """The largest difference in levels between our result and Pillow's."""
    ours = BY_NAME[name](images, magnitude)
    each = zip(images, magnitude.tolist(), strict=True)
    theirs = torch.stack([tensor(pillow(name, picture(image), m)) for image, m in each])
    assert ours.dtype == torch.uint8
    return int((ours.int() - theirs.int()).abs().max())


def allowed(name: str) -> int:
    return 1 if name in ENHANCE else 0


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", OPERATIONS)
def test_equals_pillow(name: str, size: tuple[int, int]) -> None:
    images = pictures(SIZES[size], *size)
    low, high = RANGES[name]
    draws = torch.rand(len(images), generator=torch.Generator().manual_seed(1))
    assert apart(name, images, low + (high - low) * draws.double()) <= allowed(name)


@pytest.mark.parametrize("name", OPERATIONS)
def test_equals_pillow_at_the_ends_and_the_middle(name: str) -> None:
    low, high = RANGES[name]
    steps = torch.linspace(low, high, 33, dtype=torch.float64)
    # Sides of which no step moves by nearly half a pixel: there the last bit decides, which CPUs
    # round differently, and of which Pillow loses some from row to row.
    assert apart(name, pictures(33, 19, 23), steps) <= allowed(name)


@pytest.mark.parametrize("name", ["TranslateX", "TranslateY"])
def test_a_move_by_half_a_pixel_rounds_as_pillow_does(name: str) -> None:
    halves = torch.arange(-9, 10).double() / 2 / 32
    assert apart(name, pictures(19, 32, 32), halves) == 0


def test_solarize_at_every_threshold() -> None:
    thresholds = torch.arange(0, 257).double()
    assert apart("Solarize", pictures(257, 16, 16), thresholds) == 0


def test_stretch_of_every_span_keeps_pillows_rounding() -> None:
    """A thousand pairs of darkest and brightest level, in images of all levels between them."""
    low, high = torch.triu_indices(256, 256, 1)[:, ::31, None]
    ramps = torch.minimum(low + torch.arange(256), high).to(torch.uint8)
    images = ramps.view(-1, 1, 16, 16).expand(-1, 3, -1, -1)
    assert apart("AutoContrast", images, torch.zeros(len(images))) == 0


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(OPERATIONS), st.integers(3, 40), st.integers(3, 40), st.integers(0, 999))
def test_any_shape(name: str, height: int, width: int, seed: int) -> None:
    images = pictures(4, height, width, seed)
    low, high = RANGES[name]
    draws = torch.rand(4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    assert apart(name, images, low + (high - low) * draws) <= allowed(name)


def test_each_image_has_its_own_magnitude() -> None:
    image = pictures(1, 16, 16)
    magnitude = torch.tensor([0.1, 0.5, 0.9])
    together = BY_NAME["Brightness"](image.expand(3, -1, -1, -1), magnitude)
    alone = [BY_NAME["Brightness"](image, one) for one in magnitude.split(1)]
    assert torch.equal(together, torch.cat(alone))
    assert len(together.unique(dim=0)) == 3
