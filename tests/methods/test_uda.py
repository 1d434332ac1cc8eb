"""UDA."""

from __future__ import annotations

import pytest
import torch

from tamatch.losses import each_ce
from tamatch.methods.fixmatch import FixMatch
from tamatch.methods.uda import UDA
from tests.methods.echo import Echo, echo_batch, echo_task


@pytest.mark.parametrize(("parity", "power"), [("ours", 1 / 0.4), ("usb", 1.0)])
def test_loss(parity: str, power: float) -> None:
    batch = echo_batch()
    loss = UDA(Echo(), echo_task(), parity=parity)(batch)
    p = batch.u[0].detach().softmax(-1)
    target = p**power / (p**power).sum(-1, keepdim=True)
    mask = (p.amax(-1) >= 0.8).float()  # of the prediction before it is sharpened
    unsup = (mask * each_ce(batch.u[1], target)).mean()
    assert 0 < mask.mean() < 1
    torch.testing.assert_close(loss.total, each_ce(batch.x[0], batch.y).mean() + unsup)
    loss.total.backward()
    assert not batch.u[0].grad.any()
    assert batch.u[1].grad.any()


def test_at_temperature_zero_it_is_fixmatch() -> None:
    ours = UDA(Echo(), echo_task(), tau=0.7, temperature=1e-4)
    theirs = FixMatch(Echo(), echo_task(), tau=0.7)
    for seed in range(3):
        torch.testing.assert_close(ours(echo_batch(seed)).total, theirs(echo_batch(seed)).total)
