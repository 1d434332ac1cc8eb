"""DeFixMatch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tamatch.losses import each_ce
from tamatch.methods.defixmatch import DeFixMatch
from tamatch.methods.fixmatch import FixMatch
from tests.methods.echo import Echo, echo_batch, echo_task, random_logits


def batch_with_strong_labelled(seed: int = 0, **more: Any) -> Any:
    return echo_batch(seed, x=(random_logits(seed + 70, 6), random_logits(seed + 80, 6)), **more)


def term(weak: torch.Tensor, strong: torch.Tensor) -> torch.Tensor:
    p = weak.detach().softmax(-1)
    return ((p.amax(-1) >= 0.7) * each_ce(strong, p.argmax(-1))).mean()


def test_loss() -> None:
    batch = batch_with_strong_labelled()
    loss = DeFixMatch(Echo(), echo_task(), tau=0.7)(batch)
    x, x_strong = batch.x
    sup = (each_ce(x, batch.y).mean() + each_ce(x_strong, batch.y).mean()) / 2
    unsup, anti = term(*batch.u), term(x, x_strong)
    assert anti > 0
    torch.testing.assert_close(loss.total, sup + 0.5 * (unsup - anti))
    torch.testing.assert_close(loss.parts["anti"], anti.detach())


def test_loss_can_be_negative() -> None:
    sure, wrong = 6 * torch.eye(4), 6 * torch.eye(4).roll(1, 0)
    batch = echo_batch(x=(sure, wrong), u=(sure, sure))
    assert DeFixMatch(Echo(), echo_task(), lambda_u=5.0)(batch).total < 0


@pytest.mark.parametrize("select", ["fixed", "flexmatch", "freematch"])
@pytest.mark.parametrize("weigh", ["even", "class*gaussian"])
def test_the_labelled_images_teach_the_parts_nothing(select: Any, weigh: Any) -> None:
    ours = DeFixMatch(Echo(), echo_task(), select=select, weigh=weigh, tau=0.6)
    theirs = FixMatch(Echo(), echo_task(), select=select, weigh=weigh, tau=0.6)
    for seed in range(3):
        batch = batch_with_strong_labelled(seed)
        ours(batch)
        theirs(batch._replace(x=batch.x[:1]))
    for name, value in theirs.labeler.state_dict().items():
        assert torch.equal(value, ours.labeler.state_dict()[name]), name


def test_terms_cancel_where_labelled_and_unlabelled_images_are_the_same() -> None:
    method = DeFixMatch(Echo(), echo_task(), tau=0.7)
    batch = batch_with_strong_labelled()
    batch = batch._replace(u=copy.copy(batch.x), id_u=batch.id_x)
    loss = method(batch)
    torch.testing.assert_close(loss.total, loss.parts["sup"])
