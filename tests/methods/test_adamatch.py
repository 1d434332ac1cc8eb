"""AdaMatch."""

from __future__ import annotations

import torch

from tamatch.losses import each_ce
from tamatch.methods.adamatch import AdaMatch
from tamatch.methods.fixmatch import FixMatch
from tests.methods.echo import Echo, echo_batch, echo_task, seen


def test_two_steps() -> None:
    method = AdaMatch(Echo(), echo_task(), momentum=0.8, tau=0.9)
    pseudos, masks = seen(method), []
    model, target = torch.zeros(4), torch.full((4,), 0.25)
    for seed in range(2):
        batch = echo_batch(seed)
        loss = method(batch)
        p_x, p_w = batch.x[0].detach().softmax(-1), batch.u[0].detach().softmax(-1)
        model = p_w.mean(0) if seed == 0 else 0.8 * model + 0.2 * p_w.mean(0)
        target = 0.8 * target + 0.2 * p_x.mean(0)
        aligned = p_w * (target + 1e-6) / (model + 1e-6)
        aligned = aligned / aligned.sum(-1, keepdim=True)
        mask = (aligned.amax(-1) >= 0.9 * p_x.amax(-1).mean()).float()
        each = mask * each_ce(batch.u[1], aligned.argmax(-1))
        torch.testing.assert_close(pseudos[-1].p, aligned)
        assert torch.equal(pseudos[-1].mask, mask)
        torch.testing.assert_close(loss.total, each_ce(batch.x[0], batch.y).mean() + each.mean())
        masks.append(mask.mean().item())
    status = method.labeler.status
    torch.testing.assert_close(status.model.value.float(), model)
    torch.testing.assert_close(status.target.value.float(), target)
    assert 0 < sum(masks) < 2


def test_without_alignment_it_is_fixmatch_with_a_relative_threshold() -> None:
    ours = AdaMatch(Echo(), echo_task(), generate="raw")
    theirs = FixMatch(Echo(), echo_task(), select="relative")
    for seed in range(3):
        assert torch.equal(ours(echo_batch(seed)).total, theirs(echo_batch(seed)).total)


def test_a_fixed_threshold_is_reached_where_labelled_predictions_are_certain() -> None:
    """E[max p(x)] = 1 makes the relative threshold τ itself."""
    certain = 100 * torch.eye(4)
    ours = AdaMatch(Echo(), echo_task(), generate="raw", tau=0.7)
    theirs = FixMatch(Echo(), echo_task(), tau=0.7)
    batch = echo_batch(x=(certain,))
    assert torch.equal(ours(batch).total, theirs(batch).total)
