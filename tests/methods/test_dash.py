"""Dash: the falling bound and what it selects."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tamatch.losses import each_ce
from tamatch.methods.dash import Dash
from tests.methods.echo import Echo, echo_batch, echo_task, random_logits


def dash(rho_init: float | None = None, **options: Any) -> Dash:
    method = Dash(Echo(), echo_task(steps=204_800), **options)
    if rho_init is not None:
        method.rho_init.fill_(rho_init)
    return method


def test_rho_falls_once_a_period_to_its_floor() -> None:
    method = dash(4.6)
    for k in (0, 1, 5, 18):
        for step in (2048 + k * 10_240, 2048 + (k + 1) * 10_240 - 1):
            want = 1.0001 * 1.27**-k * 4.6
            assert method.rho(torch.tensor(step)).item() == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize(("rho_init", "k"), [(4.6, 19), (2.3, 17)])
def test_when_the_floor_is_reached(rho_init: float, k: int) -> None:
    method = dash(rho_init)
    before, after = (method.rho(torch.tensor(2048 + n * 10_240)).item() for n in (k - 1, k))
    assert before > 0.05 and after == 0.05


def test_rho_init_is_the_labelled_loss_over_the_last_hundred_supervised_steps() -> None:
    method, losses = dash(supervised_steps=130), []
    for step in range(140):
        batch = echo_batch(step, step=step)
        losses.append(method(batch).parts["sup"].item())
    assert method.rho_init.item() == pytest.approx(sum(losses[30:130]) / 100, rel=1e-6)


def test_usb_takes_rho_init_from_the_untrained_weights() -> None:
    method, losses = dash(supervised_steps=130, parity="usb"), []
    for step in range(3):
        losses.append(method(echo_batch(step, step=step)).parts["sup"].item())
    assert method.rho_init.item() == pytest.approx(losses[0], rel=1e-6)


@pytest.mark.parametrize("step", [0, 2047])
def test_supervised_steps_use_no_unlabelled_image(step: int) -> None:
    batch = echo_batch(step=step)
    loss = dash()(batch)
    loss.total.backward()
    assert loss.total.item() == loss.parts["sup"].item()
    assert loss.parts["used"].item() == 0 and not batch.u[1].grad.any()


@pytest.mark.parametrize(("rho_init", "hard"), [(0.2, False), (0.02, True)])
def test_loss(rho_init: float, hard: bool) -> None:
    batch = echo_batch(step=3000, u=(random_logits(2, scale=3.0), random_logits(3)))
    loss = dash(rho_init)(batch)
    weak, rho = batch.u[0].detach(), max(1.0001 * rho_init, 0.05)
    target = torch.eye(4)[weak.argmax(-1)] if hard else (weak / 0.5).softmax(-1)
    mask = (each_ce(weak, target) <= rho).float()
    unsup = (mask * each_ce(batch.u[1], target)).mean()
    assert 0 < mask.mean() < 1
    torch.testing.assert_close(loss.total, each_ce(batch.x[0], batch.y).mean() + unsup)
    loss.total.backward()
    assert batch.u[1].grad.any() and not batch.u[0].grad.any()


def test_short_runs_have_short_periods() -> None:
    short = Dash(Echo(), echo_task(steps=1000))
    assert (short.warmup, short.period) == (10, 50)
    long = Dash(Echo(), echo_task(steps=1_048_576))
    assert (long.warmup, long.period) == (2048, 10_240)
