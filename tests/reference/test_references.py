"""The references agree with each other wherever the specification says that methods coincide."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.toynet import ToyNet

from .comatch import embed
from .data import random_params
from .gradient import gradient
from .making import batch_for, ready
from .net import NumpyNet
from .primitives import ce, mse, over_all, soft_ce
from .records import NumpyBatch, Params
from .table import REFERENCES

WITH_UNLABELLED = [name for name in REFERENCES if name != "supervised"]
STEP = 50


def test_numpy_net_is_the_torch_net() -> None:
    rng = np.random.default_rng(0)
    params = random_params(rng, 7)
    images = rng.normal(size=(9, 3, 4, 4))
    with torch.no_grad():
        expected = ToyNet.of(params)(torch.tensor(images))
    for ours, theirs in zip(NumpyNet(params)(images), expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12, atol=1e-12)


def test_pull_back_is_the_gradient_at_the_images() -> None:
    rng = np.random.default_rng(0)
    params = random_params(rng, 7)
    images, slope = rng.normal(size=(2, 3, 4, 4)), rng.normal(size=(2, 7))
    variable = torch.tensor(images, requires_grad=True)
    (ToyNet.of(params)(variable).logits * torch.tensor(slope)).sum().backward()
    assert variable.grad is not None
    ours = NumpyNet(params).pull_back(images, slope)
    np.testing.assert_allclose(ours, variable.grad.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", REFERENCES)
def test_two_steps_are_finite_and_move_only_the_state(name: str) -> None:
    method, rng = ready(name)
    before = {key: value.copy() for key, value in method.params.items()}
    for step in (STEP, STEP + 1):
        result = method.step(batch_for(method, rng, step))
        assert np.isfinite(result.total)
        assert all(np.isfinite(value).all() for value in result.state.values())
    for key, value in before.items():
        np.testing.assert_array_equal(method.params[key], value)


@pytest.mark.parametrize("name", REFERENCES)
def test_the_loss_repeats_the_total_of_the_step(name: str) -> None:
    method, rng = ready(name)
    batch = batch_for(method, rng, STEP)
    result = method.step(batch)
    assert method.loss(method.params, batch, result.values) == result.total


@pytest.mark.parametrize("name", WITH_UNLABELLED)
def test_every_term_has_a_gradient(name: str) -> None:
    method, rng = ready(name)
    batch = batch_for(method, rng, STEP)
    values = method.step(batch).values
    slopes = term_slopes(name, rng, batch)
    assert set(slopes) == set(method.terms(method.params, batch, values))
    assert all(abs(slope) > 1e-6 for slope in slopes.values()), slopes


def term_slopes(name: str, rng: np.random.Generator, batch: NumpyBatch, **hyper: Any) -> Params:
    """The derivative of each term times its factor along one random direction."""
    method, _ = ready(name, **hyper)
    values = method.step(batch).values
    along = {key: rng.normal(size=value.shape) for key, value in method.params.items()}
    ends = []
    for h in (1e-6, -1e-6):
        there = {key: value + h * along[key] for key, value in method.params.items()}
        ends.append(method.terms(there, batch, values))
    factors = method.factors(batch)
    return {key: np.array(factors[key] * (ends[0][key] - ends[1][key]) / 2e-6) for key in ends[0]}


def test_gradient_agrees_with_autograd() -> None:
    method, rng = ready("fixmatch")
    batch = batch_for(method, rng, 0)
    values = method.step(batch).values
    net = ToyNet.of(method.params)
    losses = F.cross_entropy(
        net(torch.tensor(batch.u[1])).logits, torch.tensor(values["label"]), reduction="none"
    )
    labelled = F.cross_entropy(net(torch.tensor(batch.x[0])).logits, torch.tensor(batch.y))
    total = labelled + (losses * torch.tensor(values["mask"])).mean()
    names = ("A", "W", "b")
    grads = torch.autograd.grad(total, [getattr(net, name) for name in names])
    for name, grad in zip(names, grads, strict=True):
        np.testing.assert_allclose(gradient(method, batch, values, name), grad.numpy(), atol=1e-7)


def test_mean_teacher_in_parity_learns_from_labels_alone() -> None:
    ours, rng = ready("mean_teacher")
    theirs, _ = ready("mean_teacher", parity="usb")
    batch = batch_for(ours, rng, STEP)
    result = theirs.step(batch)
    assert result.total == result.parts["labelled"] < ours.step(batch).total
    slopes = term_slopes("mean_teacher", rng, batch, parity="usb")
    assert slopes["unlabelled"] == 0 and slopes["labelled"] != 0


@pytest.mark.parametrize("name", ["fixmatch", "uda", "crmatch", "defixmatch", "pseudo_label"])
def test_masks_are_neither_empty_nor_full(name: str) -> None:
    for seed in range(3):
        method, rng = ready(name, seed)
        mask = method.step(batch_for(method, rng, 0)).values["mask"]
        assert 0 < mask.mean() < 1


def test_tamatch_is_fixmatch_when_the_ratio_is_one() -> None:
    tamatch, rng = ready("tamatch", model_momentum=1.0, target_momentum=1.0)
    fixmatch, _ = ready("fixmatch")
    for step in range(3):
        batch = batch_for(tamatch, rng, step)
        ours, theirs = tamatch.step(batch), fixmatch.step(batch)
        assert ours.total == pytest.approx(theirs.total, abs=1e-14)
        np.testing.assert_array_equal(ours.values["mask"], theirs.values["mask"])
        np.testing.assert_array_equal(ours.values["weight"], 1.0)


def test_flexmatch_takes_everything_in_its_first_step() -> None:
    method, rng = ready("flexmatch")
    assert method.step(batch_for(method, rng, 0)).values["mask"].all()


def test_freematch_is_fixmatch_with_its_threshold_held() -> None:
    free, rng = ready("freematch", init_threshold=0.95, momentum=1.0, fairness_weight=0.0)
    fix, _ = ready("fixmatch")
    for step in range(2):
        batch = batch_for(free, rng, step)
        assert free.step(batch).total == pytest.approx(fix.step(batch).total, abs=1e-14)


def test_softmatch_weighs_one_above_the_mean_and_less_below() -> None:
    method, rng = ready("softmatch")
    method.state["mean"] = np.array(0.6)
    result = method.step(batch_for(method, rng, 0))
    above = result.values["aligned"].max(axis=1) >= result.state["mean"]
    assert 0 < above.mean() < 1
    assert (result.values["weight"][above] == 1).all()
    assert (result.values["weight"][~above] < 1).all()


def test_adamatch_without_alignment_is_fixmatch_at_its_relative_threshold() -> None:
    # m = 0 and equal labelled and unlabelled images make p_target = p_model, that is r = 1.
    method, rng = ready("adamatch", momentum=0.0)
    batch = batch_for(method, rng, 0)
    size = len(batch.y)
    batch = dataclasses.replace(batch, u=(batch.x[0], batch.u[1][:size]), id_u=batch.id_u[:size])
    result = method.step(batch)
    fixmatch, _ = ready("fixmatch", threshold=float(result.values["threshold"]))
    expected = fixmatch.step(batch)
    np.testing.assert_array_equal(result.values["mask"], expected.values["mask"])
    assert result.total == pytest.approx(expected.total, abs=1e-12)


def test_uda_with_temperature_zero_is_fixmatch() -> None:
    uda, rng = ready("uda", temperature=1e-3, threshold=0.95)
    fixmatch, _ = ready("fixmatch")
    batch = batch_for(uda, rng, 0)
    assert uda.step(batch).total == pytest.approx(fixmatch.step(batch).total, abs=1e-9)


def test_uda_sharpens_unless_in_parity() -> None:
    ours, rng = ready("uda")
    theirs, _ = ready("uda", parity="usb")
    batch = batch_for(ours, rng, 0)
    a, b = ours.step(batch).values, theirs.step(batch).values
    np.testing.assert_array_equal(a["mask"], b["mask"])
    np.testing.assert_array_equal(b["target"], b["p"])
    assert (a["target"].max(axis=1) > b["target"].max(axis=1)).all()


def test_defixmatch_cancels_when_both_batches_are_the_same() -> None:
    method, rng = ready("defixmatch")
    batch = batch_for(method, rng, 0)
    result = method.step(dataclasses.replace(batch, u=batch.x))
    parts = result.parts
    assert parts["anti"] == parts["unlabelled"] > 0
    assert result.total == pytest.approx((parts["labelled"] + parts["labelled_strong"]) / 2)


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_mixmatch_with_lambda_one_mixes_nothing(lam: float) -> None:
    method, rng = ready("mixmatch")
    batch = batch_for(method, rng, STEP)
    batch = dataclasses.replace(batch, draws={**batch.draws, "lam": np.array(lam)})
    result = method.step(batch)
    net, q = NumpyNet(method.params), result.values["target"]
    labelled = np.mean(ce(net(batch.x[0]).logits, batch.y))
    unlabelled = np.mean([mse(net(view).logits, q).mean() for view in batch.u])
    assert result.total == pytest.approx(labelled + 10 * unlabelled, abs=1e-12)


def test_comatch_ignores_its_bank_before_it_counts() -> None:
    totals = []
    for fill in (0.0, 1.0):
        method, rng = ready("comatch", epoch=STEP + 1)
        method.state["bank_p"] += fill
        result = method.step(batch_for(method, rng, STEP))
        np.testing.assert_array_equal(result.values["target"], result.values["aligned"])
        totals.append(result.total)
    assert totals[0] == totals[1]


def test_comatch_uses_its_bank_after_that() -> None:
    method, rng = ready("comatch")
    method.state["bank_p"] += 1 / method.facts.classes
    values = method.step(batch_for(method, rng, STEP)).values
    assert np.abs(values["target"] - values["aligned"]).max() > 1e-3
    np.testing.assert_allclose(values["target"].sum(axis=1), 1)


def test_simmatch_in_its_first_epoch_is_aligned_soft_labels() -> None:
    method, rng = ready("simmatch", epoch=STEP + 1, threshold=0.95)
    batch = batch_for(method, rng, STEP)
    result = method.step(batch)
    aligned = result.values["aligned"]
    np.testing.assert_array_equal(result.values["target"], aligned)
    losses = soft_ce(NumpyNet(method.params)(batch.u[1]).logits, aligned)
    expected = result.parts["labelled"] + over_all(losses, aligned.max(axis=1) >= 0.95)
    assert result.total == pytest.approx(expected, abs=1e-14)


def test_crmatch_is_fixmatch_plus_its_two_terms() -> None:
    crmatch, rng = ready("crmatch")
    batch = batch_for(crmatch, rng, 0)
    result = crmatch.step(batch)
    fixmatch, _ = ready("fixmatch")
    fixmatch.after_step(crmatch.params)
    extra = result.parts["distance"] + result.parts["rotation"]
    assert result.total == pytest.approx(fixmatch.step(batch).total + extra)


@pytest.mark.parametrize("name", ["pseudo_label", "pi_model", "mean_teacher", "mixmatch"])
def test_ramped_methods_start_supervised(name: str) -> None:
    method, rng = ready(name)
    result = method.step(batch_for(method, rng, 0))
    assert result.parts["unlabelled"] > 0
    assert result.total == result.parts["labelled"]


def test_dash_warms_up_supervised() -> None:
    method, rng = ready("dash", warm_up=2, rho_init=None)
    result = method.step(batch_for(method, rng, 0))
    assert result.total == result.parts["labelled"]


def test_teacher_follows_the_student() -> None:
    method, _ = ready("mean_teacher", momentum=0.75)
    start = method.params["W"].copy()
    method.after_step(method.params | {"W": start + 4})
    np.testing.assert_allclose(method.state["teacher.W"], start + 1)
    method.after_step(method.params | {"W": start + 4})
    np.testing.assert_allclose(method.state["teacher.W"], start + 1.75)


def test_flexmatch_remembers_the_last_confident_position() -> None:
    method, rng = ready("flexmatch")
    batch = batch_for(method, rng, 0)
    result = method.step(dataclasses.replace(batch, id_u=np.zeros_like(batch.id_u)))
    confident = np.flatnonzero(result.values["p"].max(axis=1) >= 0.95)
    assert result.state["memory"][0] == result.values["label"][confident[-1]]
    assert (result.state["memory"][1:] == -1).all()


def test_simmatch_keeps_the_last_position_of_a_repeated_id() -> None:
    method, rng = ready("simmatch")
    old = method.state["bank"].copy()
    batch = batch_for(method, rng, 0)
    state = method.step(batch).state
    repeated = batch.id_x[-1]
    assert repeated == batch.id_x[1]
    blend = 0.7 * old[:, repeated] + 0.3 * embed(method.params, batch.x[0])[-1]
    np.testing.assert_allclose(state["bank"][:, repeated], blend / np.linalg.norm(blend))
    np.testing.assert_array_equal(state["bank_labels"][batch.id_x], batch.y)


def test_simmatch_in_parity_makes_columns_too_long() -> None:
    method, rng = ready("simmatch", parity="usb")
    batch = batch_for(method, rng, 0)
    bank = method.step(batch).state["bank"]
    lengths = np.linalg.norm(bank[:, np.unique(batch.id_x)], axis=0)
    assert lengths.mean() == pytest.approx(np.sqrt(128 / len(batch.y)), rel=0.1)
