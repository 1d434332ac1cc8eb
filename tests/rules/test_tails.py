"""The rule for the plain or the long-tailed form of TaMatch."""

from __future__ import annotations

import numpy as np
import pytest

from tamatch.rules import tails

EVEN, TAIL = [0.1] * 10, [0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.03, 0.02, 0.01]


@pytest.mark.parametrize(
    ("labels", "pool", "tailed"),
    [
        ([5] * 10, EVEN, False), ([5] * 10, None, False), ([5] * 10, TAIL, True),
        ([60, 40, 30, 20, 15, 10, 8, 6, 4, 2], EVEN, True),
        ([60, 40, 30, 20, 15, 10, 8, 6, 4, 2], None, True),
        ([4, 1], None, False), ([40, 10], None, True),  # the first may be chance
        ([9, 3, 6, 2, 5, 7, 4, 5, 6, 3], EVEN, False),
    ],
)  # fmt: skip
def test_the_form_follows_the_class_shares(
    labels: list[int], pool: list[float] | None, tailed: bool
) -> None:
    found = tails.form(labels, pool, 2000)
    assert found.settings == {"method": "tamatch_lt" if tailed else "tamatch"}
    why = found.reasons["method"]
    assert why.startswith(
        "tamatch_lt: for unequal classes" if tailed else "tamatch: classes are ab"
    )
    assert ("--method tamatch" in why) is tailed
    if not tailed:
        assert tails.form(labels, pool, 2000, tails.SOLVED).settings == {"method": "tamatch_solved"}
    assert ("the pool's shares are not known" in why) is (pool is None)
    assert f"labels {max(labels)} to {min(labels)} a class (KL from equal " in why
    if pool is TAIL:
        assert "pool 30 % to 1 % a class (KL from equal 0.35 > 0.03)" in why


def test_a_class_without_images_counts() -> None:
    assert tails.form([50, 50, 50], [0.5, 0.5, 0.0], 300).settings == {"method": "tamatch_lt"}


@pytest.mark.parametrize(("classes", "images"), [(2, 20), (10, 50), (10, 400), (50, 500)])
def test_chance_alone_is_not_called_unequal(classes: int, images: int) -> None:
    """The bound without its constant is exceeded by few draws, and by some."""
    drawn = np.random.default_rng(0).multinomial(images, [1 / classes] * classes, size=2000)
    share = drawn / images
    away = (share * np.log(np.maximum(classes * share, 1e-12))).sum(1)
    exceeded = (away > tails.chance(classes, images)).mean()
    assert 0.005 < exceeded < 0.1
