"""The module that training uses: what comes out, what it depends on, and what it never does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from tamatch.augment import Augment, Policy
from tamatch.augment.views import ADDRESSES, VIEWS
from tamatch.errors import UsageError
from tests.augment.oracle import pictures
from tests.contract.nosync import no_sync

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SLOTS = torch.arange(24)
STEP = torch.tensor(11)


@pytest.fixture
def augment() -> Augment:
    return Augment(Policy(16, MEAN, STD), seed=4)


@pytest.fixture
def images() -> Tensor:
    return pictures(24, 16, 16)


def test_plain_normalises_and_nothing_else(augment: Augment, images: Tensor) -> None:
    mean, std = (torch.tensor(each)[:, None, None] for each in (MEAN, STD))
    plain = augment("plain", images, STEP, STEP, 0)
    torch.testing.assert_close(plain, (images / 255 - mean) / std)


@pytest.mark.parametrize("view", ["plain", "weak", "medium", "strong"])
def test_shape_and_type(augment: Augment, images: Tensor, view: str) -> None:
    result = augment(view, images, STEP, SLOTS, 0)
    assert result.shape == (24, 3, 16, 16)
    assert result.dtype == torch.float32
    assert result.is_contiguous()


@pytest.mark.parametrize("view", ["weak", "medium", "strong"])
def test_larger_images_are_cropped_to_size(augment: Augment, view: str) -> None:
    assert augment(view, pictures(24, 20, 31), STEP, SLOTS, 0).shape == (24, 3, 16, 16)


@pytest.mark.parametrize("size", [8, 16, 40])
@pytest.mark.parametrize("view", ["weak", "medium", "strong"])
def test_an_image_does_not_depend_on_the_batch(view: str, size: int) -> None:
    augment, images = Augment(Policy(size, MEAN, STD), seed=4), pictures(24, size, size)
    together = augment(view, images, STEP, SLOTS, 0)
    for slot in range(24):
        alone = augment(view, images[slot : slot + 1], STEP, SLOTS[slot : slot + 1], 0)
        assert torch.equal(alone[0], together[slot])
    order = torch.arange(23, -1, -1)
    assert torch.equal(augment(view, images[order], STEP, order, 0), together[order])


@pytest.mark.parametrize("view", ["weak", "medium", "strong"])
def test_the_address_decides(augment: Augment, images: Tensor, view: str) -> None:
    first = augment(view, images, STEP, SLOTS, 0)
    again = Augment(augment.policy, seed=4)(view, images, STEP, SLOTS, 0)
    assert torch.equal(first, again)
    others = [
        augment(view, images, STEP + 1, SLOTS, 0),
        augment(view, images, STEP, SLOTS + 24, 0),
        augment(view, images, STEP, SLOTS, 1),
        Augment(augment.policy, seed=5)(view, images, STEP, SLOTS, 0),
    ]
    for other in others:
        same = (first == other).flatten(1).all(1).float().mean()
        assert same < 0.3


@pytest.mark.parametrize("view", ["plain", "weak", "medium", "strong"])
def test_no_images(augment: Augment, images: Tensor, view: str) -> None:
    assert augment(view, images[:0, :, :16, :16], STEP, SLOTS[:0], 0).shape == (0, 3, 16, 16)


def test_each_view_draws_its_own_crops(images: Tensor) -> None:
    augment = Augment(Policy(16, MEAN, STD, count=0, cutout=0.0), seed=0)
    views = [augment(view, images, STEP, SLOTS, 0) for view in ("weak", "medium", "strong")]
    for one, other in combinations(views, 2):
        assert (one == other).flatten(1).all(1).float().mean() < 0.3


def test_a_medium_view_is_a_strong_one_with_a_single_operation(images: Tensor) -> None:
    """The same draws as those of a strong view at its address, under a policy of one operation."""
    policy = Policy(16, MEAN, STD)
    medium = Augment(policy, seed=4)("medium", images, STEP, SLOTS, 1)
    single = Augment(replace(policy, count=1), seed=4)
    address = len(ADDRESSES) * 1 + ADDRESSES["medium"]
    assert torch.equal(medium, single.by_modules(images, STEP, SLOTS, address, rounds=1))
    bare = Augment(replace(policy, cutout=0.0, operations=("Identity",)), seed=4)
    cropped = bare.by_modules(images, STEP, SLOTS, address, rounds=None)
    assert torch.equal(bare("medium", images, STEP, SLOTS, 1), cropped)
    assert not torch.equal(medium, cropped)


def test_identical_images_come_out_different(augment: Augment, images: Tensor) -> None:
    strong = augment("strong", images[:1].expand(24, -1, -1, -1), STEP, SLOTS, 0)
    assert len(strong.unique(dim=0)) == 24


def test_a_wrong_call_says_what_is_right(augment: Augment, images: Tensor) -> None:
    with pytest.raises(
        UsageError, match='unknown view "storng"; known: plain, weak, medium, strong'
    ):
        augment("storng", images, STEP, SLOTS, 0)
    with pytest.raises(UsageError, match="expected uint8"):
        augment("weak", images.float(), STEP, SLOTS, 0)
    with pytest.raises(UsageError, match="do not fit size 16"):
        augment("plain", pictures(2, 20, 16), STEP, SLOTS[:2], 0)
    with pytest.raises(UsageError, match="do not fit size 16"):
        augment("weak", pictures(2, 15, 16), STEP, SLOTS[:2], 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"pad": 8}, "pad 8 does not fit"),
        ({"operations": ("Invert",)}, "unknown operation Invert; known: AutoContrast"),
        ({"operations": ()}, "cannot draw 3"),
        ({"cutout": 1.5}, "cutout must lie in"),
        ({"std": (0.0, 1.0, 1.0)}, "std above 0"),
        ({"size": 2}, "at least 3 pixels"),
    ],
)
def test_a_wrong_policy_says_what_is_right(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Policy(**({"size": 8, "mean": MEAN, "std": STD} | wrong))


def test_nothing_is_stored(augment: Augment) -> None:
    assert not augment.state_dict()
    assert not list(augment.parameters())


@pytest.mark.parametrize("size", [8, 32])
@pytest.mark.parametrize("view", ["plain", "weak", "medium", "strong"])
def test_never_waits_copies_from_the_host_or_draws(view: str, size: int) -> None:
    augment, images = Augment(Policy(size, MEAN, STD), seed=0), pictures(24, size, size)
    with no_sync("lift_fresh", "rand"):
        augment(view, images, STEP, SLOTS, 0)


def test_compiles_to_one_graph() -> None:
    augment, images = Augment(Policy(40, MEAN, STD), seed=0), pictures(24, 40, 40)
    compiled = torch.compile(augment, backend="aot_eager", fullgraph=True)
    for view in VIEWS:
        result = compiled(view, images, STEP, SLOTS, 1)
        torch.testing.assert_close(result, augment(view, images, STEP, SLOTS, 1))


def test_a_policy_needs_no_torch() -> None:
    code = "import sys; from tamatch.augment import Policy; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
