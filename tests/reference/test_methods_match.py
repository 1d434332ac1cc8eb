"""Every method of the package equals its slow reference: loss, constants, gradients and state.

The methods run in float64. Where they cast to float32 for use (masks, weights, TaMatch's r), the
cast is lifted, so that formulas are compared and not roundings; a test of its own then takes the
methods as they are, in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tamatch.methods import METHODS

from .cases import CASES, Case
from .link import TERMS, Pair, expected_state, expected_terms, gradients, stored, twin, weights
from .primitives import hard, histogram, mean_row, moved
from .records import NumpyBatch, Params, Result, Values
from .witness import Witness

SEEDS = range(5)
STEP = 1e-6  # of the central differences
INNER = {"threshold", "ratio", "r_max", "losses", "bank"}  # seen in the masks and weights alone

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
    ours, theirs = stored(pair.method, pair.reference), expected_state(pair.reference)
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


def assert_constants(case: Case, witness: Witness, values: Values) -> None:
    """Labels, masks, weights and targets; a mask or weight that the reference lacks is 1."""
    source = judged(case, values)
    found = witness.constants(case.reference, source)
    defaults = {"label": hard(values[source])} if "label" in found else {}
    for name, tensor in found.items():
        value = tensor.detach().numpy()
        expected = values.get(name, defaults.get(name, np.ones(len(value))))
        assert_close(value, expected, 10 * case.tolerance, name)
    unseen = {name for name in values if name not in found and not name.startswith("fair_")}
    assert unseen <= INNER | {"p", "aligned"}


def assert_report(case: Case, parts: dict[str, Any], values: Values) -> None:
    """What the log says of the pseudo-labels follows from the reference's."""
    p, ones = values[judged(case, values)], np.ones(len(values["p"]))
    label, classes = hard(p), p.shape[1]
    mask, weight = values.get("mask", ones), values.get("weight", ones)
    used = [mask[label == c].sum() / len(label) for c in range(classes)]
    expected: dict[str, Any] = {
        "used": mask.mean(),
        "used_by_class": used,
        "predicted_by_class": histogram(label, classes),
        "weight": (mask * weight).sum() / max(1, mask.sum()),
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
        assert {name for name in TERMS if name in loss.parts} == expected.keys()
        for name, value in expected.items():
            assert_close(loss.parts[name].item(), value, case.tolerance, name)
        assert_constants(case, witness, result.values)
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
        for place in pair.rng.choice(value.size, size=coordinates, replace=False):
            along = {key: np.zeros_like(other) for key, other in params.items()}
            along[name].flat[place] = 1.0
            found.append(along)
    return [*found, {key: pair.rng.normal(size=value.shape) for key, value in params.items()}]


@every_case
@every_seed
def test_gradients(case: Case, seed: int, exact: pytest.MonkeyPatch) -> None:
    pair = pair_of(case, seed, exact)
    assert pair.reference.params.keys() == weights(pair.method).keys()
    for step in case.steps_of(seed):
        batch, result, _ = pair.step(step)
        ours = gradients(pair.method)
        for along in directions(pair):
            expected = slope(pair, batch, result.values, along)
            value = sum(float((ours[name] * along[name]).sum()) for name in ours)
            assert_close(value, expected, 1e-6, f"{[k for k, v in along.items() if v.any()]}")
        pair.learn()


@every_case
def test_single_precision_is_the_same_method(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    if case.id == "vat: default":
        pytest.skip("in float32 the direction at ξ = 1e-6 is rounding noise")
    pair = pair_of(case, 0, monkeypatch, torch.float32)
    for step in case.steps_of(0):
        _, result, loss = pair.step(step)
        assert loss.total.dtype == torch.float32
        assert_close(loss.total.item(), result.total, 2e-5, "total")
        pair.learn()
    assert_state(pair, 1e-5)


def run(case: Case, seed: int) -> list[Result]:
    """The reference's steps alone, without learning."""
    reference, rng = case.made(seed)
    from .making import batch_for

    return [reference.step(batch_for(reference, rng, step)) for step in case.steps_of(seed)]
