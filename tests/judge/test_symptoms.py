"""Each warning fires where it should, stays silent where it should, and says what to do."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageFilter

from tamatch.data import SplitPlan, load, make_split
from tamatch.judge.symptoms import (
    FEWEST_IMAGES,
    MOST_IMAGES,
    NAMES,
    Reached,
    auc,
    crossed_auc,
    distribution_shift,
    evenly_spread,
    never_predicted,
    patience,
    statistics,
    two_sample_test,
    unused,
)

CLASSES = ("a", "b", "c")
EVEN = (1 / 3, 1 / 3, 1 / 3)


def test_nobody_worries_early() -> None:
    assert patience(1200, 0) == 300
    assert patience(1_000_000, 5120) == 7120
    assert patience(2, 0) == 0 and patience(100, 1000) == 100


@pytest.mark.parametrize(("used", "fires"), [(0.0, True), (0.0099, True), (0.01, False)])
def test_unused_images_are_noticed(used: float, fires: bool) -> None:
    found = unused(used, 2000, lambda: Reached(0.61, 0.95, 0.6))
    assert (found is not None) == fires
    if found:
        text = str(found)
        assert "after 2,000 steps" in text and "reaches τ = 0.95 (highest confidence 0.61)" in text
        assert "equals supervised training" in text and "Try --tau 0.6, a smaller --lr" in text


def test_a_method_without_a_threshold_is_not_told_to_lower_it() -> None:
    found = unused(0.0, 300, lambda: Reached(0.4, None, 0.3))
    assert found is not None and "tau" not in str(found) and "τ" not in str(found)


def test_no_threshold_is_advised_that_is_not_lower() -> None:
    """As after a resume: the pool is sure by now, and the average of the use is not."""
    found = unused(0.0, 2000, lambda: Reached(0.99, 0.95, 0.95))
    assert found is not None and found.cure.startswith("Try a smaller --lr")


def test_a_short_run_is_first_told_to_be_longer() -> None:
    found = unused(0.0, 120, lambda: Reached(0.9, 0.95, 0.85))
    assert found is not None and found.cause.startswith("There are probably too few steps")
    assert found.cure == "Try more --steps, --tau 0.85, a smaller --lr or more labels."


def test_a_class_that_is_never_predicted_is_named() -> None:
    found = never_predicted([0.6, 0.0, 0.4], 300, EVEN, CLASSES)
    assert found is not None and 'is predicted as "b".' in found.what
    both = never_predicted([1.0, 0.0, 0.0], 300, EVEN, CLASSES)
    assert both is not None and 'any of "b", "c"' in both.what
    assert "shows them" in both.cause and both.cure.startswith("Check their labelled images")
    assert "shows it" in found.cause and found.cure.startswith("Check its labelled images")
    many = never_predicted([1.0] + [0.0] * 9, 10_000, [0.1] * 10, [str(i) for i in range(10)])
    assert many is not None and "and 4 more" in many.what


def test_tamatch_is_not_told_to_use_tamatch() -> None:
    for method, told in (("fixmatch", True), ("tamatch", False), ("tamatch_no_clipping", False)):
        found = never_predicted([0.6, 0.0, 0.4], 300, EVEN, CLASSES, method)
        assert found is not None and ("--method tamatch" in found.cure) == told


@pytest.mark.parametrize(
    ("predicted", "images", "shares"),
    [
        ([0.6, 0.001, 0.399], 3000, EVEN),  # rarely is not never
        ([0.6, 0.0, 0.4], 29, EVEN),  # too few images to tell
        ([0.6, 0.0, 0.4], 300, (0.5, 0.01, 0.49)),  # a class that is rare
        ([0.6, 0.0, 0.4], 29, (0.1, 0.8, 0.1)),  # many labels do not promise many in the pool
    ],
)
def test_a_rare_class_or_a_small_pool_is_no_alarm(
    predicted: list[float], images: int, shares: tuple[float, ...]
) -> None:
    assert never_predicted(predicted, images, shares, CLASSES) is None


def test_the_classifier_is_judged_on_images_it_has_not_seen() -> None:
    """Few rows of many numbers can always be told apart by one that has seen them."""
    found = []
    for seed in range(20):
        a, b = np.random.default_rng(seed).normal(size=(2, 12, 21))
        found.append(crossed_auc(a, b))
    assert 0.4 < np.mean(found) < 0.6


def images_of(labels_per_class: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    data = load("digits")
    split = make_split(data, SplitPlan(labels_per_class=labels_per_class, seed=seed))
    return data.images[split.labelled], data.images[split.unlabelled]


@pytest.mark.parametrize("labels_per_class", [1, 2, 4, 25])
def test_matching_sets_raise_no_alarm(labels_per_class: int) -> None:
    """Forty draws of each size, some of them small enough for chance to play."""
    for seed in range(10):
        found = two_sample_test(*images_of(labels_per_class, seed))
        assert found is not None and not found.differ, (seed, found)
        assert distribution_shift(found) is None


def brighter(image: Image.Image) -> Image.Image:
    return image.point(lambda v: min(255, v + 40))


def blurred(image: Image.Image) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(1))


def tinted(image: Image.Image) -> Image.Image:
    red, green, blue = image.split()
    return Image.merge("RGB", (red, green.point(lambda v: v * 3 // 4), blue))


def compressed(image: Image.Image) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=10)
    return Image.open(file)


@pytest.mark.parametrize(
    ("change", "statistic"),
    [
        (brighter, "darkest parts"),
        (blurred, "fine detail"),
        (tinted, "colourfulness"),
        (compressed, ""),
    ],
)
@pytest.mark.parametrize("labels_per_class", [2, 25])
def test_shifted_sets_are_told_apart(
    change: Callable[[Image.Image], Image.Image], statistic: str, labels_per_class: int
) -> None:
    labelled, pool = images_of(labels_per_class, 0)
    shifted = np.stack([np.asarray(change(Image.fromarray(i))) for i in pool[:300]])
    found = two_sample_test(labelled, shifted)
    assert found is not None and found.differ, found
    assert statistic in found.statistic
    told = distribution_shift(found)
    assert told is not None and found.statistic in told.what and "Label some images" in told.cure


def test_too_few_images_say_nothing() -> None:
    black = np.zeros((FEWEST_IMAGES - 1, 8, 8, 3), np.uint8)
    assert two_sample_test(black, 255 - black) is None and distribution_shift(None) is None
    enough = np.zeros((FEWEST_IMAGES, 8, 8, 3), np.uint8)
    found = two_sample_test(enough, 255 - enough)
    assert found is not None and found.auc == 1 and found.differ
    same = two_sample_test(enough, enough)  # no statistic varies at all
    assert same is not None and same.auc == 0.5 and not same.differ


@pytest.mark.parametrize(
    ("images", "limit"), [(FEWEST_IMAGES, 0.98), (40, 0.5 + 5 * (81 / 19_200) ** 0.5), (90, 0.8)]
)
def test_small_sets_must_differ_more(images: int, limit: float) -> None:
    """By the standard error that the AUC of two like sets has, unless no mistake is made at all."""
    random = np.random.default_rng(0).integers(0, 256, (2, images, 6, 6, 3), np.uint8)
    found = two_sample_test(*random)
    assert found is not None and found.limit == pytest.approx(limit)


def test_statistics_lie_between_black_and_white() -> None:
    image = np.zeros((1, 9, 9, 3), np.uint8)
    image[:, :3, 3:6, 0] = 255  # a ninth of it is red
    found = dict(zip(NAMES, statistics(image)[0], strict=True))
    assert [found[name] for name in ("red", "green", "blue")] == pytest.approx([1 / 9, 0, 0])
    assert found["colourfulness"] == pytest.approx(1 / 9)
    assert (found["darkest parts"], found["brightest parts"]) == (0, pytest.approx(1 / 3))
    bright = {name: value for name, value in found.items() if name.startswith("brightness")}
    assert bright.pop("brightness at the top centre") == pytest.approx(1 / 3)
    assert set(bright.values()) == {0}


def test_the_area_under_the_curve_counts_pairs() -> None:
    a, b = np.array([3.0, 1.0, 2.0]), np.array([2.0, 0.0])
    pairs = [1.0 if x > y else 0.5 if x == y else 0.0 for x in a for y in b]
    assert auc(a, b) == np.mean(pairs)


def test_large_sets_are_sampled_evenly_and_each_image_stands_alone() -> None:
    chosen = evenly_spread(10_000)
    assert len(chosen) == MOST_IMAGES and chosen[0] == 0 and chosen[-1] == 9_999
    assert (np.diff(chosen) >= 19).all() and (evenly_spread(7) == np.arange(7)).all()
    random = np.random.default_rng(0).integers(0, 256, (150, 9, 9, 3), np.uint8)
    assert statistics(random)[140] == pytest.approx(statistics(random[140:141])[0], abs=1e-6)
