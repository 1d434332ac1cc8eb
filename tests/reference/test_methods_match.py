"""Every method of the package equals its slow reference: loss, constants, gradients and state.

The methods run in float64, and so do the memories of CoMatch and SimMatch, which are float32 in the
package. Where a method casts to float32 for use (masks, weights, TaMatch's r), the cast is lifted,
so that formulas are compared and not roundings; a test of its own then takes the methods as they
are, in float32.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from .cases import CASES, Case
from .link import (
    Pair,
    expected_terms,
    gradients,
    torch_batch,
    twin,
    weights,
)
from .making import batch_for
from .primitives import hard, histogram, mean_row, moved
from .records import NumpyBatch, Params, Values
from .storage import stored
from .witness import Witness

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))]
STEP = 1e-6  # of the central differences
# What the reference tells besides, and the method shows in its masks, weights and terms alone.
INNER = {
    "threshold", "ratio", "r_max", "losses", "bank", "fair_target", "fair_rows", "fair_labels",
    "adjust_x", "adjust_u", "kept", "aim", "soft", "sure", "amount",
}  # fmt: skip
CONSTANTS = {"labelled", "weights", "keep", "anchors"}  # buffers made of the labelled class shares

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
every_seed = pytest.mark.parametrize("seed", SEEDS)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """`.float()` keeps float64."""
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    return monkeypatch


def pair_of(
    case: Case, seed: int, patch: pytest.MonkeyPatch, dtype: torch.dtype = torch.float64
) -> Pair:
    reference, rng = case.made(seed)
    method = twin(reference, case.name, dtype, **case.options)
    return Pair(reference, method, rng, patch, dtype)


def assert_close(ours: Any, theirs: Any, tolerance: float, what: str) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=what)


def assert_state(pair: Pair, tolerance: float) -> None:
    ours, theirs = stored(pair.method, pair.reference), pair.reference.remembered()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        value = tensor.detach().numpy().reshape(theirs[name].shape)
        assert_close(value, theirs[name], tolerance, name)


def judged(case: Case, values: Values) -> str:
    """The prediction from which labels and confidences come."""
    if case.reference in ("comatch", "simmatch"):
        return "target"
    raw = case.reference == "softmatch" or case.row == "tamatch_no_rescaling"
    return "p" if raw or "aligned" not in values else "aligned"


def assert_constants(case: Case, pair: Pair, witness: Witness, values: Values) -> None:
    """Labels, masks, weights and targets; a mask or weight that the reference lacks is 1."""
    source = judged(case, values)
    found = witness.constants(pair.reference, source)
    given = "label" not in found or "label" in values
    defaults = {} if given else {"label": hard(values[source])}
    if not values.get("mask", np.ones(1)).any():
        found.pop("target", None)  # nobody follows it
    for name, tensor in found.items():
        value = tensor.detach().numpy()
        expected = values.get(name, defaults.get(name, np.ones(len(value))))
        assert_close(value, expected, 10 * case.tolerance, name)
    unseen = values.keys() - found.keys() - INNER
    assert unseen <= {"p", "aligned"} or not values["mask"].any()


def assert_report(case: Case, parts: dict[str, Any], values: Values) -> None:
    """What the log says of the pseudo-labels follows from the reference's."""
    if "amount" in values:  # labels that are no predictions of the net
        assert_close(parts["used"].numpy(), values["amount"].mean(), case.tolerance, "used")
        return
    p, ones = values[judged(case, values)], np.ones(len(values["p"]))
    label, classes = hard(p), p.shape[1]
    mask, weight = values.get("mask", ones), values.get("weight", ones)
    used = [mask[label == c].sum() / len(label) for c in range(classes)]
    expected: dict[str, Any] = {
        "used": mask.mean(),
        "used_by_class": used,
        "predicted_by_class": histogram(label, classes),
        "weight": (mask * weight).sum() / mask.sum() if mask.any() else 1.0,
        "max_weight": (mask * weight).max(),
        "confidence": p.max(axis=1).mean(),
    }
    for name, value in expected.items():
        assert_close(parts[name].numpy(), value, case.tolerance, name)


def warming(case: Case, step: int) -> bool:
    """Whether Dash still gathers its ρ_init after this step."""
    return case.reference == "dash" and step + 1 < int(case.hyper["warm_up"])


@every_case
@every_seed
def test_loss_constants_and_state(case: Case, seed: int, exact: pytest.MonkeyPatch) -> None:
    pair = pair_of(case, seed, exact)
    witness = Witness(exact, pair.method)
    for step in case.steps_of(seed):
        _, result, loss = pair.step(step)
        assert_close(loss.total.item(), result.total, case.tolerance, "total")
        expected = expected_terms(result)
        for name, value in expected.items():
            assert_close(loss.parts[name].item(), value, case.tolerance, name)
        assert_constants(case, pair, witness, result.values)
        if "used" in loss.parts:
            assert_report(case, loss.parts, result.values)
        if "rho" in loss.parts and result.state["k"] > 0:
            assert_close(loss.parts["rho"].item(), result.state["rho"], case.tolerance, "rho")
        if not warming(case, step):
            assert_state(pair, case.tolerance)
        pair.learn()
        if not warming(case, step):
            assert_state(pair, case.tolerance)


def slope(pair: Pair, batch: NumpyBatch, values: Values, along: Params) -> float:
    """The derivative of the reference's loss along a direction, its constants held."""
    ends = []
    for h in (STEP, -STEP):
        there = {name: value + h * along[name] for name, value in pair.reference.params.items()}
        ends.append(pair.reference.loss(there, batch, values))
    return (ends[0] - ends[1]) / (2 * STEP)


def directions(pair: Pair, coordinates: int = 2) -> list[Params]:
    """Some coordinates of each parameter, and one direction through all of them."""
    params, found = pair.reference.params, []
    for name, value in params.items():
        for place in pair.rng.permutation(value.size)[:coordinates]:
            along = {key: np.zeros_like(other) for key, other in params.items()}
            along[name].flat[place] = 1.0
            found.append(along)
    return [*found, {key: pair.rng.normal(size=value.shape) for key, value in params.items()}]


@every_case
@every_seed
def test_gradients(case: Case, seed: int, exact: pytest.MonkeyPatch) -> None:
    pair = pair_of(case, seed, exact)
    assert pair.reference.params.keys() == weights(pair.method).keys()
    *before, last = case.steps_of(seed)
    for step in before:
        pair.step(step)
        pair.learn()
    batch, result, _ = pair.step(last)
    ours = gradients(pair.method)
    for along in directions(pair):
        expected = slope(pair, batch, result.values, along)
        value = sum(float((ours[name] * along[name]).sum()) for name in ours)
        where = ", ".join(name for name in along if along[name].any())
        assert_close(value, expected, max(1e-6, case.tolerance), where)


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.reference != "vat"],  # whose directions float32 hardly sees
    ids=lambda case: case.id,
)
def test_single_precision_is_the_same_method(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of(case, 0, monkeypatch, torch.float32)
    for step in case.steps_of(0):
        _, result, loss = pair.step(step)
        assert loss.total.dtype == torch.float32
        assert_close(loss.total.item(), result.total, 2e-5, "total")
        pair.learn()
    assert_state(pair, 1e-5)


@every_case
def test_no_state_escapes_the_comparison(case: Case, exact: pytest.MonkeyPatch) -> None:
    """Not in the references: a flag of first use, targets that stay, and what is reported."""
    pair = pair_of(case, 0, exact)
    uniform = np.full(pair.reference.facts.classes, 1 / pair.reference.facts.classes)
    p_model, accepted = uniform, np.zeros(pair.reference.facts.unlabelled)
    begun = {name: buffer.clone() for name, buffer in pair.method.named_buffers()}
    for step in case.steps_of(0):
        batch, result, _ = pair.step(step)
        values = result.values
        mask = values.get("mask", np.ones(len(batch.id_u)))
        np.add.at(accepted, batch.id_u, mask)
        p_model = moved(p_model, mean_row(values["p"]), 0.999) if "p" in values else p_model
    compared = {tensor.data_ptr() for tensor in stored(pair.method, pair.reference).values()}
    for name, buffer in pair.method.named_buffers():
        if buffer.data_ptr() in compared:
            continue
        if name.endswith("fresh"):
            assert not buffer, name
        elif name.endswith("status.target.value"):
            assert_close(buffer.numpy(), uniform, 0, name)
        elif name in CONSTANTS:
            assert torch.equal(buffer, begun[name]), name
        elif name.endswith("tally.count"):
            assert_close(buffer.numpy(), accepted, 0, name)
        else:
            assert name == "labeler.status.model.value"
            assert_close(buffer.numpy(), p_model, 1e-12, name)


PARITY = {case.reference for case in CASES if "parity" in case.hyper} | {"dash"}
INDIFFERENT = [case for case in CASES if case.reference not in PARITY]


@pytest.mark.parametrize("case", INDIFFERENT, ids=lambda case: case.id)
def test_parity_changes_nothing_elsewhere(case: Case, exact: pytest.MonkeyPatch) -> None:
    reference, rng = case.made(0)
    method = twin(reference, case.name, **case.options, parity="usb")
    pair = Pair(reference, method, rng, exact)
    for step in case.steps_of(0):
        _, result, loss = pair.step(step)
        assert_close(loss.total.item(), result.total, case.tolerance, "total")
        pair.learn()
    assert_state(pair, case.tolerance)


@every_seed
def test_dash_in_parity_begins_with_the_loss_of_the_first_step(
    seed: int, exact: pytest.MonkeyPatch
) -> None:
    """The reference counts its steps after the warm-up, and is told ρ_init."""
    case = Case("dash", hyper={"parity": "usb", "rho_init": 0.0, "period": 2, "gamma": 2.0})
    reference, rng = case.made(seed)
    options: dict[str, Any] = {
        "supervised_steps": 3,
        "rho_period": 2,
        "rho_decay": 2.0,
        "parity": "usb",
    }
    method = twin(reference, "dash", **options)
    for step in range(8):
        batch = batch_for(reference, rng, step)
        loss = method(torch_batch(batch))
        if step == 0:
            reference.state["rho_init"] = loss.parts["sup"].double().numpy()
        if step < 3:
            assert loss.parts["used"] == 0 and loss.total == loss.parts["sup"]
            continue
        late = step - 3
        result = reference.step(replace(batch, step=late, progress=late / reference.facts.steps))
        assert_close(loss.total.item(), result.total, 1e-9, "total")
        assert_close(loss.parts["rho"].item(), result.state["rho"], 1e-9, "rho")
        assert_close(loss.parts["used"].item(), result.values["mask"].mean(), 1e-9, "mask")


def test_dash_takes_the_last_hundred_steps_of_a_long_warm_up(exact: pytest.MonkeyPatch) -> None:
    case = Case("dash", hyper={"warm_up": 104})
    reference, rng = case.made(0)
    method = twin(reference, "dash", supervised_steps=104, rho_period=10)
    batches = [batch_for(reference, rng, 0) for _ in range(3)]
    for step in range(104):
        batch = replace(batches[step % 3], step=step, progress=step / reference.facts.steps)
        reference.step(batch)
        method(torch_batch(batch))
    assert len(reference.state["losses"]) == 100
    assert_close(method.rho_init.item(), reference.state["rho_init"], 1e-9, "rho_init")
