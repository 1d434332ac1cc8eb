"""All rounds together against a Pillow loop over the same draws, and what is drawn."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from torch import Tensor

from tamatch.augment import OPERATIONS, Policy, uniform, views
from tamatch.augment.policy import RANGES
from tamatch.augment.views import RandAugment
from tests.augment.oracle import ENHANCE, erase, picture, pictures, pillow, tensor

HALF = (0.5, 0.5, 0.5)
EXACT = tuple(name for name in OPERATIONS if name not in ENHANCE)
SIZES = {(8, 8): 400, (16, 16): 200, (32, 32): 200, (33, 47): 100, (96, 96): 24, (224, 224): 6}


@pytest.fixture
def batched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep large images from taking Pillow's path."""
    monkeypatch.setattr(views, "PILLOW_ABOVE", 10_000)


def test_the_operations_and_their_ranges() -> None:
    """The benchmark's: fourteen operations, and no factor that brightens."""
    none, factor, shift = (0, 0), (0.05, 0.95), (-0.3, 0.3)
    assert {
        "AutoContrast": none, "Brightness": factor, "Color": factor, "Contrast": factor,
        "Equalize": none, "Identity": none, "Posterize": (4, 8), "Rotate": (-30, 30),
        "Sharpness": factor, "ShearX": shift, "ShearY": shift, "Solarize": (0, 256),
        "TranslateX": shift, "TranslateY": shift,
    } == RANGES  # fmt: skip


def draws_of(augment: RandAugment) -> int:
    """Of an image's strong view."""
    return augment.draws(augment.policy.count)


def draw(augment: RandAugment, count: int, step: int = 0) -> Tensor:
    return uniform(5, torch.tensor(step), torch.arange(count), 0, draws_of(augment)).double()


def by_pillow(policy: Policy, image: Tensor, draws: list[float]) -> Tensor:
    """The strong view of one image, with the draws read as the policy describes them."""
    result = picture(image)
    for which, how_much in zip(draws[0:-3:2], draws[1:-3:2], strict=True):
        name = policy.operations[int(which * len(policy.operations))]
        low, high = RANGES[name]
        result = pillow(name, result, low + (high - low) * how_much)
    if policy.cutout:
        width, height = result.size
        side = draws[-3] * policy.cutout * width
        left = int(max(0, draws[-2] * width - side / 2))
        top = int(max(0, draws[-1] * height - side / 2))
        result = erase(result, (left, top, min(width, left + side), min(height, top + side)))
    return tensor(result)


def difference(policy: Policy, size: tuple[int, int], count: int) -> Tensor:
    augment, images = RandAugment(policy), pictures(count, *size)
    draws = draw(augment, count)
    ours = augment(images, draws)
    each = zip(images, draws.tolist(), strict=True)
    theirs = torch.stack([by_pillow(policy, image, own) for image, own in each])
    assert ours.dtype == torch.float32
    return (ours - theirs).abs()


@pytest.mark.usefixtures("batched")
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_three_rounds_and_cutout_equal_pillow(size: tuple[int, int]) -> None:
    policy = Policy(size[0], HALF, HALF, operations=EXACT)
    assert difference(policy, size, SIZES[size]).max() == 0


@pytest.mark.usefixtures("batched")
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_enhance_operations_differ_by_a_level_at_most(size: tuple[int, int]) -> None:
    one = Policy(size[0], HALF, HALF, count=1)
    assert difference(one, size, SIZES[size]).max() <= 1
    # Later rounds may widen a level's difference, but hardly any pixel has one.
    three = difference(Policy(size[0], HALF, HALF), size, SIZES[size])
    assert (three > 0).float().mean() < 1e-3


def test_cutout_alone_equals_pillow() -> None:
    for size in ((8, 8), (33, 47), (20, 12)):
        for largest in (0.5, 1.0):
            policy = Policy(size[0], HALF, HALF, count=0, cutout=largest)
            assert difference(policy, size, 500).max() == 0


def test_no_cutout_no_change() -> None:
    policy = Policy(8, HALF, HALF, count=0, cutout=0.0)
    images = pictures(10, 8, 8)
    augment = RandAugment(policy)
    assert torch.equal(augment(images, draw(augment, 10)), images.float())


def test_pillows_path_and_the_batched_path_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures(40, 48, 48)
    augment = RandAugment(Policy(48, HALF, HALF, count=1))
    exact = RandAugment(Policy(48, HALF, HALF, operations=EXACT))
    draws, exact_draws = draw(augment, 40), draw(exact, 40)
    by_pillow, exact_by_pillow = augment(images, draws), exact(images, exact_draws)
    monkeypatch.setattr(views, "PILLOW_OPERATIONS", {})
    with pytest.raises(KeyError):  # that was Pillow's path
        augment(images, draws)
    monkeypatch.setattr(views, "PILLOW_ABOVE", 48)
    assert (augment(images, draws) - by_pillow).abs().max() <= 1
    assert torch.equal(exact(images, exact_draws), exact_by_pillow)


def test_operations_and_magnitudes_are_uniform() -> None:
    augment = RandAugment(Policy(8, HALF, HALF))
    draws = torch.cat([draw(augment, 1000, step) for step in range(20)])
    codes, magnitudes = augment.choose(draws)
    assert stats.chisquare(codes.flatten().bincount(minlength=14)).pvalue > 1e-3
    pairs = codes[0] * 14 + codes[1]  # with replacement: the second does not know the first
    assert stats.chisquare(pairs.bincount(minlength=14 * 14)).pvalue > 1e-3
    for code, name in enumerate(OPERATIONS):
        low, high = RANGES[name]
        drawn = magnitudes[codes == code]
        if high > low:
            assert low <= drawn.min() and drawn.max() < high
            assert stats.kstest(drawn, "uniform", (low, high - low)).pvalue > 1e-4
    bits = magnitudes[codes == OPERATIONS.index("Posterize")].long()
    assert sorted(bits.unique().tolist()) == [4, 5, 6, 7]


def test_only_the_policys_operations_are_used() -> None:
    augment = RandAugment(Policy(8, HALF, HALF, operations=("Identity",), cutout=0.0))
    images = pictures(20, 8, 8)
    assert torch.equal(augment(images, draw(augment, 20)), images.float())


def test_the_largest_draw_stays_in_range() -> None:
    augment = RandAugment(Policy(8, HALF, HALF))
    images = pictures(1, 8, 8)
    for number in (0.0, 1 - 2.0**-24):
        draws = torch.full((1, draws_of(augment)), number, dtype=torch.float64)
        result = augment(images, draws)
        assert result.min() >= 0 and result.max() <= 255
