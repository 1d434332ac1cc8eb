"""SoftMatch and its Gaussian weights."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
import torch

from tamatch.losses import each_ce
from tamatch.methods.softmatch import SoftMatch
from tamatch.pseudo import Gaussian, Guess
from tamatch.stats import Status
from tests.methods.echo import Echo, echo_batch, echo_task, random_logits, seen

M = 0.8


@pytest.mark.parametrize(
    "options", [{}, {"n_sigma": 1.0}, {"learn_from": "raw"}, {"parity": "usb"}], ids=str
)
def test_three_steps(options: dict[str, Any]) -> None:
    method = SoftMatch(Echo(), echo_task(), momentum=M, **options)
    pseudos = seen(method)
    mu, var, model = 0.25, 1.0, torch.zeros(4)
    for seed in range(3):
        weak = random_logits(seed) + torch.tensor([1.5, 0, 0, -1])
        batch = echo_batch(seed, u=(weak, random_logits(seed + 9)))
        loss = method(batch)
        p = weak.softmax(-1)
        model = p.mean(0) if seed == 0 else M * model + (1 - M) * p.mean(0)
        aligned = p * (0.25 + 1e-6) / (model + 1e-6)
        aligned = aligned / aligned.sum(-1, keepdim=True)
        if options.get("parity") == "usb":
            aligned = aligned.softmax(-1)
        top = aligned.amax(-1).tolist()
        learnt = p.amax(-1).tolist() if options.get("learn_from") == "raw" else top
        mu = M * mu + (1 - M) * statistics.mean(learnt)
        var = M * var + (1 - M) * statistics.variance(learnt)
        n = options.get("n_sigma", 2.0)
        weight = [math.exp(-(min(c - mu, 0) ** 2) / (2 * var / n**2)) for c in top]
        torch.testing.assert_close(pseudos[-1].weight, torch.tensor(weight))
        label = weak.argmax(-1)  # of the raw prediction
        assert not torch.equal(label, aligned.argmax(-1)) or seed
        unsup = (torch.tensor(weight) * each_ce(batch.u[1], label)).mean()
        torch.testing.assert_close(loss.total, each_ce(batch.x[0], batch.y).mean() + unsup)
    part = method.labeler.weigh
    assert part.mean.value.item() == pytest.approx(mu, rel=1e-6)
    assert part.variance.value.item() == pytest.approx(var, rel=1e-6)


def guess(p: torch.Tensor) -> Guess:
    return Guess(p, p, p, torch.arange(len(p)), Status(echo_task(p.shape[-1])))


def test_weight_is_one_from_the_mean_upwards_and_falls_below() -> None:
    part = Gaussian(echo_task(2), momentum=1.0)
    part.mean.value.fill_(0.8)
    part.variance.value.fill_(0.01)
    top = torch.tensor([0.95, 0.8, 0.75, 0.7, 0.55])
    weight = part(guess(torch.stack([top, 1 - top], -1)))
    assert weight[:2].tolist() == [1, 1]
    assert (weight[1:].diff() < 0).all()


def test_one_image_or_equal_confidences_leave_finite_weights() -> None:
    for rows in (1, 5):
        part = Gaussian(echo_task(2), momentum=0.0)
        for top in (0.9, 0.9, 0.6):
            weight = part(guess(torch.tensor([[top, 1 - top]]).repeat(rows, 1)))
            assert weight.isfinite().all()
