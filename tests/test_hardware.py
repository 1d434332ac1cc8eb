from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tamatch.build import engine_of
from tamatch.config import configure
from tamatch.data import SplitPlan, load, make_split
from tamatch.hardware import prepare


@pytest.fixture(autouse=True)
def switches_as_before() -> Iterator[None]:
    yield
    prepare("fp32")


@pytest.mark.parametrize("wanted", [True, False])
def test_deterministic_sets_torchs_switches(wanted: bool) -> None:
    data = load("digits")
    run = configure({"deterministic": wanted, "steps": 1})
    engine_of(run, data, make_split(data, SplitPlan(labels_per_class=1)))
    assert torch.are_deterministic_algorithms_enabled() is wanted
    assert torch.backends.cudnn.deterministic is wanted
    assert torch.backends.cudnn.benchmark is not wanted


def test_the_users_random_numbers_are_left_alone() -> None:
    data = load("digits")
    split = make_split(data, SplitPlan(labels_per_class=1))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    engine = engine_of(configure({"steps": 2}), data, split)
    with engine.running():
        engine.advance()
    assert torch.equal(torch.rand(3), expected)
