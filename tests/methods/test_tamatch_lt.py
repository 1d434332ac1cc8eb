"""TaMatch-LT: estimates the pool's class shares, learns for equal ones, and its variants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tamatch.losses import each_ce
from tamatch.methods.fixmatch import FixMatch
from tamatch.methods.tamatch_lt import TaMatchLT
from tamatch.modules import Shifted
from tamatch.stats import FittedStrength
from tests.methods.echo import Echo, echo_batch, echo_task, random_logits, seen
from tests.methods.miniature import (
    batch_of,
    build,
    check_contract,
    check_finite,
    check_order_does_not_matter,
)

VARIANTS: list[dict[str, Any]] = [
    {"tau": 0.5},
    {"tau": 0.5, "heads": 1},
    {"tau": 0.5, "used": "accepted", "strong_views": 2, "labelled_views": 2},
    {"select": "freematch", "weigh": "effective"},
]
SHARES = (0.7, 0.2, 0.08, 0.02)


@pytest.mark.parametrize("options", VARIANTS)
def test_contract(options: dict[str, Any]) -> None:
    check_contract(build(TaMatchLT, **options))
    check_order_does_not_matter(build(TaMatchLT, **options))
    check_finite(TaMatchLT, 300, 40.0, **options)


def test_without_adjustment_it_is_fixmatch() -> None:
    plain = TaMatchLT(Echo(), echo_task(), heads=1, strength=0.0, generate="raw", tau=0.6)
    fixmatch = FixMatch(Echo(), echo_task(), tau=0.6)
    for seed in range(3):
        assert plain(echo_batch(seed)).total == fixmatch(echo_batch(seed)).total


def test_the_logits_of_both_losses_are_adjusted() -> None:
    method = TaMatchLT(Echo(), echo_task(labelled_shares=SHARES), heads=1, tau=0.6, strength=1.5)
    method.labeler.status.model.value.copy_(torch.tensor([0.4, 0.3, 0.2, 0.1]))
    pseudos, batch = seen(method), echo_batch(1)
    loss = method(batch)
    at_x = 1.5 * (torch.tensor(SHARES, dtype=torch.float64) + 1e-6).log().float()
    at_u = 1.5 * (method.labeler.status.model.value + 1e-6).log().float()
    torch.testing.assert_close(loss.parts["sup"], each_ce(batch.x[0] + at_x, batch.y).mean())
    torch.testing.assert_close(loss.parts["unsup"], pseudos[0].loss(batch.u[1] + at_u))
    assert pseudos[0].mask.any()


def test_p_model_finds_the_shares_of_the_pool_whatever_the_labels_are() -> None:
    """Where softmax(z) is right for equal shares, the estimate is EM's, which has one maximum."""
    random = np.random.default_rng(0)
    truth = np.array(SHARES)
    method = TaMatchLT(Echo(), echo_task(labelled_shares=SHARES[::-1]), heads=1, lambda_model=0.98)
    for step in range(600):
        classes = random.choice(4, size=64, p=truth)
        signal = random.normal(size=(64, 4)) + 2 * np.eye(4)[classes]
        logits = torch.tensor(2 * signal, dtype=torch.float32)  # log of the densities' ratios
        method(echo_batch(step, u=(logits, logits), ids=[0] * 64))
    found = method.labeler.status.shares.numpy()
    raw = logits.softmax(-1).mean(0).numpy()
    assert np.abs(found - truth).sum() < 0.1 < np.abs(raw - truth).sum()


def test_shares_of_the_accepted_labels() -> None:
    method = TaMatchLT(Echo(), echo_task(), heads=1, tau=0.6, used="accepted", lambda_model=0.5)
    pseudos = seen(method)
    method(echo_batch(0))
    [pseudo] = pseudos
    count = torch.stack([pseudo.mask[pseudo.label == c].sum() for c in range(4)]).double()
    torch.testing.assert_close(method.used.value, 0.5 * 0.25 + 0.5 * count / count.sum())
    kept = method.used.value.clone()
    method(echo_batch(1, u=(torch.zeros(12, 4), random_logits(3))))  # nobody is sure
    assert torch.equal(method.used.value, kept)


def test_a_second_head_takes_part_in_labelling() -> None:
    method = build(TaMatchLT, tau=0.5)
    pseudos, batch = seen(method), batch_of(method)
    model = method.labeler.status.model.value
    model.copy_(torch.tensor([0.5, 0.2, 0.15, 0.1, 0.05]))
    before = model.clone()
    loss = method(batch)
    weak = method.predict(*batch.x, *batch.u)[len(batch.x)]
    second = weak.features @ method.second.weight.T + method.second.bias
    learnt = ((method.labelled + before) / 2 + 1e-6).log().float()
    p = ((weak.logits + second - learnt) / 2).softmax(-1) * (before.float() + 1e-6)
    torch.testing.assert_close(pseudos[0].p, p / p.sum(-1, keepdim=True))
    total = loss.parts["sup"] + loss.parts["unsup"] + loss.parts["second"]
    torch.testing.assert_close(loss.total.detach(), total)
    assert method.final is method.net  # the second head is not tested


@pytest.mark.parametrize(("kind", "options"), [(FixMatch, {}), (TaMatchLT, {"heads": 1})])
def test_logits_may_be_shifted_at_test_time(kind: type[FixMatch], options: Any) -> None:
    method = kind(Echo(), echo_task(), test_strength=-0.5, **options)
    method(echo_batch(0))
    final, shares = method.final, method.labeler.status.shares
    assert isinstance(final, Shifted) and final.net is method.net
    torch.testing.assert_close(final.logit_shift, -0.5 * (shares + 1e-6).log().float())


def test_the_shift_may_be_fitted_to_labelled_images() -> None:
    options = {"tau": 0.5, "labelled_views": 2, "test_strength": 0.25, "fit_test": True}
    check_contract(build(TaMatchLT, **options))
    method = TaMatchLT(Echo(), echo_task(labelled_shares=SHARES), heads=1, **options)
    method.labeler.status.model.value.copy_(torch.tensor(SHARES))
    labelled = (torch.zeros(6, 4), random_logits(5, rows=6))
    method(echo_batch(1, x=labelled))
    alone = FittedStrength(method.task, method.labeler.status.model.momentum)
    alone.update_(labelled[1], echo_batch(1).y, (method.labeler.status.shares + 1e-6).log().float())
    assert method.fitted.value == alone.value != 0
    want = (0.25 + alone.value) * (method.labeler.status.shares + 1e-6).log()
    torch.testing.assert_close(method.final.logit_shift, want.float())
