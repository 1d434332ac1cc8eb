"""ShrinkMatch: which classes remain, and what an image that is not sure counts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tamatch.methods.shrinkmatch import Norm, ShrinkMatch, shrunk
from tests.methods.miniature import batch_of, build, check_contract, check_finite


def test_contract() -> None:
    check_contract(build(ShrinkMatch, tau=0.5))


@settings(max_examples=12, deadline=None)
@given(classes=st.integers(2, 1000), reach=st.floats(0.01, 50))
def test_finite(classes: int, reach: float) -> None:
    check_finite(ShrinkMatch, classes, reach)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 1000), min_size=2, max_size=9).map(torch.tensor), st.floats(0.1, 0.99)
)
def test_the_fewest_rivals_go(counts: torch.Tensor, tau: float) -> None:
    p = counts.double() / counts.sum()
    order, kept = (found[0] for found in shrunk(p[None], tau))
    assert order.sort().values.equal(torch.arange(len(p)))
    remaining = p[order[kept]]
    assert kept[0] and p[order[0]] == p.max() and not kept[1]
    if len(remaining) > 1:
        assert remaining[0] / remaining.sum() >= tau - 1e-12
    rivals = int(kept.sum()) - 1
    assert (kept[2:].long().diff() >= 0).all()  # who remains are the least likely
    if rivals < len(p) - 2:  # with one more it would not be sure
        more = p[order[[0, *range(len(p) - rivals - 1, len(p))]]]
        assert more[0] / more.sum() < tau + 1e-12


def test_with_two_classes_nothing_shrinks() -> None:
    method = build(ShrinkMatch, 2, tau=0.9)
    assert method(batch_of(method)).parts["shrunk"] == 0


def test_it_counts_as_much_as_images_are_sure() -> None:
    method = build(ShrinkMatch, tau=0.55, reach=0.5)
    loss = method(batch_of(method))
    assert loss.parts["used"] == 0 < loss.parts["shrunk"]
    assert loss.total == loss.parts["sup"] and method.certain.value == 0


@pytest.mark.parametrize("rows", [2, 50])
def test_its_norm_is_batchnorm(rows: int) -> None:
    torch.manual_seed(0)
    ours, theirs = Norm(4), nn.BatchNorm1d(4)
    x = 3 * torch.randn(rows, 4) + 1
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
