"""SequenceMatch: who follows whom."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamatch.methods.sequencematch import SequenceMatch
from tamatch.pseudo import Curriculum
from tests.methods.miniature import batch_of, build, check_contract, check_finite


@pytest.mark.parametrize("options", [{}, {"parity": "usb"}])
def test_contract(options: dict[str, Any]) -> None:
    check_contract(build(SequenceMatch, **options))


@settings(max_examples=12, deadline=None)
@given(classes=st.integers(2, 1000), reach=st.floats(0.01, 50))
def test_finite(classes: int, reach: float) -> None:
    check_finite(SequenceMatch, classes, reach)


def test_views_that_agree_cost_nothing() -> None:
    method = build(SequenceMatch, norm=False, tau=0.1, temperature=1.0)
    batch = batch_of(method)
    batch = batch._replace(u=(batch.u[0],) * 3)
    assert abs(method(batch).parts["sequence"]) < 1e-5


def test_an_image_that_is_sure_in_its_medium_view_alone_teaches_the_strong_one() -> None:
    method = build(SequenceMatch, norm=False)
    batch = batch_of(method)
    weak, medium = (method.net(view).logits.softmax(-1).amax(-1) for view in batch.u[:2])
    row = (medium - weak).argmax(keepdim=True)
    assert weak[row] < medium[row]
    batch = batch._replace(u=tuple(view[row] for view in batch.u), id_u=batch.id_u[row])
    method = build(SequenceMatch, norm=False, tau=(weak + medium)[row].item() / 2)
    loss = method(batch)
    assert loss.parts["used"] == loss.parts["unsup"] == 0 < loss.parts["sequence"]
    (loss.total - loss.parts["sup"]).backward()
    assert method.net.head.weight.grad.abs().sum() > 0


def test_the_benchmarks_selection_can_still_be_chosen() -> None:
    assert isinstance(build(SequenceMatch, parity="usb").labeler.select, Curriculum)
    own = build(SequenceMatch, parity="usb", select="all")
    assert own(batch_of(own)).parts["used"] == 1
