"""The parts of the enhance operations are exact; only the last blend may differ by a level."""

from __future__ import annotations

import numpy as np
import torch
from PIL import ImageFilter, ImageStat

from tamatch.augment.ops import BY_NAME
from tamatch.augment.pixels import blurred, luma, mean_level
from tests.augment.oracle import picture, pictures, pillow, tensor


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
        assert torch.equal(BY_NAME["Color"](image[None], factors)[0], theirs)
