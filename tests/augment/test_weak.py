"""The weak view against NumPy's reflected padding and slicing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from tamatch.augment import Policy, uniform
from tamatch.augment.views import Crop
from tests.augment.oracle import pictures

HALF = (0.5, 0.5, 0.5)


def draw(count: int) -> Tensor:
    return uniform(3, torch.tensor(0), torch.arange(count), 0, Crop.DRAWS).double()


def expected(policy: Policy, image: Tensor, draws: Tensor) -> np.ndarray:
    border, size = policy.border, policy.size
    padded = np.pad(image.numpy(), ((0, 0), (border, border), (border, border)), "reflect")
    top = int(draws[0].item() * (padded.shape[1] - size + 1))
    left = int(draws[1].item() * (padded.shape[2] - size + 1))
    crop = padded[:, top : top + size, left : left + size]
    if policy.horizontal_flip and draws[2] < 0.5:
        crop = crop[:, :, ::-1]
    if policy.vertical_flip and draws[3] < 0.5:
        crop = crop[:, ::-1]
    return crop


@pytest.mark.parametrize("flips", [(True, False), (False, False), (True, True), (False, True)])
@pytest.mark.parametrize(
    ("size", "pad", "shape"),
    [
        (8, None, (8, 8)),
        (32, None, (32, 32)),
        (96, None, (96, 96)),
        (5, 4, (5, 5)),
        (16, 0, (16, 16)),
        (20, 3, (31, 20)),
    ],
)
def test_equals_numpy(
    size: int, pad: int | None, shape: tuple[int, int], flips: tuple[bool, bool]
) -> None:
    policy = Policy(size, HALF, HALF, *flips, pad=pad)
    images, draws = pictures(60, *shape), draw(60)
    crops = Crop(policy)(images, draws)
    for image, own, crop in zip(images, draws, crops, strict=True):
        assert np.array_equal(crop.numpy(), expected(policy, image, own))


def test_every_place_and_flip_is_equally_likely() -> None:
    policy = Policy(8, HALF, HALF, vertical_flip=True)
    image = torch.arange(64, dtype=torch.uint8).view(1, 1, 8, 8).expand(1, 3, 8, 8)
    crops = Crop(policy)(image.expand(9000, -1, -1, -1), draw(9000))
    views, counts = crops[:, 0].flatten(1).unique(dim=0, return_counts=True)
    assert len(views) == 9 * 4  # three rows, three columns, two flips
    assert counts.min() > 250 * 0.75
    assert counts.max() < 250 * 1.25


@pytest.mark.parametrize(("size", "border"), [(8, 1), (9, 1), (32, 4), (96, 12), (4, 1)])
def test_border_is_an_eighth_of_the_size(size: int, border: int) -> None:
    assert Policy(size, HALF, HALF).border == border
