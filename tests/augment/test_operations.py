"""Every operation against Pillow, pixel for pixel, on images and magnitudes of all kinds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ImageFilter, ImageStat
from torch import Tensor

from tamatch.augment.ops import blurred, luma, mean_level
from tamatch.augment.policy import OPERATIONS, RANGES
from tests.augment.oracle import ENHANCE, ours, picture, pictures, pillow, tensor

SIZES = {(8, 8): 150, (16, 16): 100, (32, 32): 80, (33, 47): 60, (96, 96): 15, (224, 200): 5}


def apart(name: str, images: Tensor, magnitude: Tensor) -> int:
    """The largest difference in levels between our result and Pillow's."""
    made = ours(name, images, magnitude)
    each = zip(images, magnitude.tolist(), strict=True)
    theirs = torch.stack([tensor(pillow(name, picture(image), m)) for image, m in each])
    assert made.dtype == torch.uint8
    return int((made.int() - theirs.int()).abs().max())


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
    together = ours("Brightness", image.expand(3, -1, -1, -1), magnitude)
    alone = [ours("Brightness", image, one) for one in magnitude.split(1)]
    assert torch.equal(together, torch.cat(alone))
    assert len(together.unique(dim=0)) == 3


def test_grey_rounds_as_pillow_where_the_weights_tie_or_nearly_so() -> None:
    red, green, blue = np.ogrid[:256, :256, :256]
    rest = (red * 19595 + green * 38470 + blue * 7471) % 65536
    colours = torch.from_numpy(np.argwhere(abs(rest - 32768) <= 1)).to(torch.uint8)
    assert len(colours) > 100
    image = colours.T.reshape(3, 1, -1)
    ours = luma(image.float().view(1, 3, -1))
    assert np.array_equal(ours.numpy().ravel(), np.asarray(picture(image).convert("L")).ravel())


def test_mean_grey_rounds_half_up() -> None:
    halves = torch.tensor([[10, 11], [7, 7], [255, 254]], dtype=torch.float32)
    grey = halves.repeat(1, 50)[:, None]
    assert mean_level(grey, width=10).flatten().tolist() == [11, 7, 255]
    for image in pictures(200, 33, 47):
        expected = int(ImageStat.Stat(picture(image).convert("L")).mean[0] + 0.5)
        assert mean_level(luma(image.float().view(1, 3, -1)), width=47).item() == expected


def test_blur_is_pillows_smooth_filter_inside() -> None:
    images = pictures(100, 12, 17)
    ours = blurred(images.flatten(2).float(), width=17).view(images.shape)
    theirs = torch.stack([tensor(picture(image).filter(ImageFilter.SMOOTH)) for image in images])
    assert torch.equal(ours[:, :, 1:-1, 1:-1], theirs[:, :, 1:-1, 1:-1].float())


def test_blend_rounds_its_product_as_pillow_does() -> None:
    """Colours that come out a level lower where product and sum are rounded together."""
    cases = {
        0.7999994812310028: (78, 162, 255),
        0.7674420170462617: (174, 88, 244),
        0.18965514457718646: (62, 15, 227),
        0.32203396578862126: (255, 76, 127),
        0.6567163170004462: (139, 40, 58),
        0.6754385142930192: (236, 70, 255),
    }
    for factor, colour in cases.items():
        image = torch.tensor(colour, dtype=torch.uint8)[:, None, None].expand(3, 9, 9)
        theirs = tensor(pillow("Color", picture(image), factor))
        factors = torch.tensor([factor], dtype=torch.float64)
        assert torch.equal(ours("Color", image[None], factors)[0], theirs)
