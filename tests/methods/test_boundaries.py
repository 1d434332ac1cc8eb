"""A prediction that lies on a bound has reached it: two equal logits are ½ to the last bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tamatch.losses import each_ce
from tamatch.methods.adamatch import AdaMatch
from tamatch.methods.comatch import CoMatch
from tamatch.methods.dash import Dash
from tamatch.methods.fixmatch import FixMatch
from tamatch.methods.flexmatch import FlexMatch
from tamatch.methods.freematch import FreeMatch
from tamatch.methods.simmatch import SimMatch
from tests.methods.echo import Echo, echo_batch, echo_task

LEVEL = torch.zeros(12, 2)
TASK = echo_task(2, unlabelled=12)


def batch() -> Any:
    return echo_batch(x=(LEVEL[:6],), u=(LEVEL, LEVEL))


@pytest.mark.parametrize(
    "method",
    [
        FixMatch(Echo(), TASK, tau=0.5),
        AdaMatch(Echo(), TASK, tau=1.0),  # relative to the labelled images, which are as unsure
        FreeMatch(Echo(), TASK, momentum=0.0),  # whose threshold is then the mean confidence
    ],
    ids=lambda method: type(method).__name__,
)
def test_thresholds(method: Any) -> None:
    assert method(batch()).parts["used"] == 1


def test_flexmatch_remembers_and_uses() -> None:
    method = FlexMatch(Echo(), TASK, tau=0.5)
    method(batch())
    assert method.labeler.select.beta.tolist() == [1, 0]
    assert method(batch()).parts["used"] == 1


def test_dash() -> None:
    method = Dash(Echo(), echo_task(2, steps=1000), rho_scale=1.0)
    method.rho_init.copy_(each_ce(LEVEL, LEVEL.softmax(-1))[0])
    pseudo, _ = method.label(LEVEL, method.rho(torch.tensor(50)))
    assert pseudo.mask.tolist() == [1] * 12


@pytest.mark.parametrize("kind", [CoMatch, SimMatch])
def test_smoothed_predictions(kind: Any) -> None:
    method = kind(Echo(), TASK, tau=0.5)
    _, report = method.agreement(LEVEL, LEVEL.softmax(-1), torch.arange(12))
    assert report["used"] == 1


def test_comatch_links() -> None:
    graph = CoMatch(Echo(), TASK, link=0.5).graph(LEVEL.softmax(-1))
    assert (graph > 0).all()
