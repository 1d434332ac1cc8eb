"""Pseudo-Labeling."""

from __future__ import annotations

import copy

import pytest
import torch

from tamatch.losses import each_ce
from tamatch.methods.pseudo_label import PseudoLabel
from tamatch.methods.supervised import Supervised
from tests.methods.echo import Echo, echo_batch, echo_task, random_logits
from tests.methods.miniature import batch_of, build, statistics


@pytest.mark.parametrize(("step", "ramp"), [(0, 0.0), (20, 0.5), (40, 1.0), (90, 1.0)])
def test_loss_and_its_gradient_on_the_same_weak_view(step: int, ramp: float) -> None:
    method = PseudoLabel(Echo(), echo_task(), tau=0.7, lambda_u=2.0)
    batch = echo_batch(u=(random_logits(2),), step=step)
    loss = method(batch)
    loss.total.backward()
    weak = batch.u[0].detach()
    p, label = weak.softmax(-1), weak.argmax(-1)
    mask = (p.amax(-1) >= 0.7).float()
    assert 0 < mask.mean() < 1
    sup, unsup = each_ce(batch.x[0], batch.y).mean(), (mask * each_ce(weak, label)).mean()
    torch.testing.assert_close(loss.total, sup + 2 * ramp * unsup)
    want = 2 * ramp * mask[:, None] * (p - torch.eye(4)[label]) / len(weak)
    torch.testing.assert_close(batch.u[0].grad, want)
    torch.testing.assert_close(loss.parts["used"], mask.mean())


def test_only_labelled_images_move_the_running_statistics() -> None:
    method = build(PseudoLabel)
    alone = Supervised(copy.deepcopy(method.net), method.task)
    batch = batch_of(method)
    method(batch), alone(batch)
    for mine, theirs in zip(statistics(method.net), statistics(alone.net), strict=True):
        assert torch.equal(mine, theirs)
