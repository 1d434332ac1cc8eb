"""The shared formulas, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from .alignment import align_by_queue, follow_model, rescaled, start_queue
from .data import random_params, realistic_batch, realistic_facts
from .fixmatch import Reference as FixMatch
from .primitives import (
    at_least,
    ce,
    mix,
    mse,
    one_hot,
    over_all,
    ramp,
    sharpen,
    soft_ce,
    softmax,
    turn,
)
from .records import Array, Values

P = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]])


def test_losses_by_hand() -> None:
    z, labels = np.log(P), np.array([0, 2])
    np.testing.assert_allclose(softmax(z), P)
    np.testing.assert_allclose(ce(z, labels), [-math.log(0.5), -math.log(0.1)])
    np.testing.assert_allclose(soft_ce(z, one_hot(labels, 3)), ce(z, labels))
    np.testing.assert_allclose(mse(z, one_hot(labels, 3)), [0.38 / 3, 1.46 / 3])


def test_rejected_samples_stay_in_the_denominator() -> None:
    assert over_all(np.array([4.0, 8.0]), np.array([1.0, 0.0])) == 2.0


def test_a_threshold_is_passed_by_equality() -> None:
    np.testing.assert_array_equal(at_least(P, 0.5), [1, 1])
    np.testing.assert_array_equal(at_least(P, np.array([0.51, 0.8])), [0, 1])


def test_sharpening_with_half_squares() -> None:
    squares: Array = P**2
    np.testing.assert_allclose(sharpen(P, 0.5), squares / squares.sum(axis=1, keepdims=True))


def test_ramp() -> None:
    assert [ramp(step, 100, 0.4) for step in (0, 10, 40, 99)] == [0, 0.25, 1, 1]


def test_mixing_keeps_the_larger_part() -> None:
    a, b = np.array([1.0]), np.array([0.0])
    assert mix(a, b, 0.2) == mix(a, b, 0.8) == pytest.approx(0.8)


def test_turning_is_counter_clockwise() -> None:
    image = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    np.testing.assert_array_equal(turn(image, 1), [[[2.0, 4.0], [1.0, 3.0]]])


def test_the_first_batch_sets_p_model() -> None:
    state: Values = {}
    follow_model(state, P, 0.9)
    np.testing.assert_allclose(state["p_model"], [0.3, 0.55, 0.15])
    follow_model(state, P[:1], 0.9)
    np.testing.assert_allclose(state["p_model"], [0.32, 0.525, 0.155])


def test_rescaling_is_the_identity_when_model_and_target_agree() -> None:
    np.testing.assert_allclose(rescaled(P, P[0], P[0]), P)


def test_the_queue_averages_empty_rows_too() -> None:
    state: Values = {}
    start_queue(state, 3)
    aligned = align_by_queue(state, P)
    raw: Array = P * (1 / 3 + 1e-6) / (np.array([0.3, 0.55, 0.15]) / 32 + 1e-6)
    np.testing.assert_allclose(aligned, raw / raw.sum(axis=1, keepdims=True))
    assert state["queue_pointer"] == 1
    for _ in range(31):
        align_by_queue(state, P)
    assert state["queue_pointer"] == 0
    assert (state["queue"] > 0).all()


@pytest.mark.parametrize("classes", [2, 5, 10, 100])
def test_batches_are_realistic_for_any_number_of_classes(classes: int) -> None:
    facts = realistic_facts(classes, labelled=4 * classes)
    rng = np.random.default_rng(classes)
    params = random_params(rng, classes)
    batch = realistic_batch(rng, params, facts, FixMatch)
    result = FixMatch(params, facts).step(batch)
    assert 0.2 < result.values["mask"].mean() < 0.8
    assert len(np.unique(result.values["label"])) > 1
    assert len(np.unique(batch.id_u)) < len(batch.id_u)
    assert len(np.unique(batch.id_x)) < len(batch.id_x)
