"""Trust: figures equal those of scikit-learn and SciPy, and obey what must hold for any model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    balanced_accuracy_score,
    confusion_matrix,
    precision_score,
    recall_score,
)

from tamatch.judge.differences import kl
from tamatch.judge.figures import Calibration
from tamatch.judge.trust import (
    FEWEST_TO_FIT,
    calibration_of,
    fit_temperature,
    measure,
    reliability,
    sweep,
    tempered,
    wilson,
)

Case = tuple[np.ndarray, np.ndarray]


def case(seed: int, images: int = 300, classes: int = 5, temperature: float = 1.0) -> Case:
    """Labels drawn from p, and what a model says whose logits are `temperature` times too large."""
    random = np.random.default_rng(seed)
    z = random.normal(size=(images, classes))
    z[np.arange(images), random.integers(0, classes, images)] += 2
    p = tempered(np.exp(z) / np.exp(z).sum(-1, keepdims=True), 1.0)
    labels = (p.cumsum(-1) > random.random((images, 1))).argmax(-1)
    return tempered(p, 1 / temperature), labels


@given(st.integers(1, 3000), st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_the_interval_is_wilson_s(images: int, share: float) -> None:
    right = round(share * images)
    low, high = wilson(right, images)
    want = binomtest(right, images).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((want.low, want.high), abs=1e-12)
    assert 0 <= low <= right / images <= high <= 1


def calibrate(
    p: np.ndarray, labels: np.ndarray, p_val: np.ndarray, y_val: np.ndarray
) -> Calibration:
    parts = {"test": p, "validation": p_val}
    return calibration_of(parts, {"test": labels, "validation": y_val})


def calibrate_on_itself(p: np.ndarray, labels: np.ndarray) -> Calibration:
    return calibration_of({"validation": p}, {"validation": labels})


@pytest.mark.parametrize("seed", range(3))
def test_marks_equal_those_of_scikit_learn(seed: int) -> None:
    p, labels = case(seed, classes=6)
    labels = np.where(labels == 4, 3, labels)  # a class that does not occur
    p[:, 5] = 0  # and one that is never predicted
    found, guess, names = measure(p, labels), p.argmax(-1), range(6)
    assert found.accuracy == (guess == labels).mean()
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(labels, guess))
    for score, own in ((precision_score, "precision"), (recall_score, "recall")):
        want = score(labels, guess, labels=names, average=None, zero_division=np.nan)
        mine = [getattr(c, own) for c in found.classes]
        assert [math.nan if v is None else v for v in mine] == pytest.approx(want, nan_ok=True)
    matrix = np.zeros((6, 6), int)
    for true, predicted, n in found.confusion:
        matrix[true, predicted] = n
    assert (matrix == confusion_matrix(labels, guess, labels=names)).all()
    assert all(n for _, _, n in found.confusion)


def test_the_reliability_curve_is_scikit_learn_s() -> None:
    p, labels = case(0)
    right = p.argmax(-1) == labels
    accuracy, confidence = calibration_curve(right, p.max(-1), n_bins=10)
    found = reliability(p, labels)
    assert [b.accuracy for b in found.bins] == pytest.approx(accuracy)
    assert [b.confidence for b in found.bins] == pytest.approx(confidence)
    sizes = [b.images for b in found.bins]
    assert found.ece == pytest.approx(np.average(np.abs(accuracy - confidence), weights=sizes))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0, 4.0])
def test_the_temperature_is_the_most_likely_one(temperature: float) -> None:
    p, labels = case(1, 2000, temperature=temperature)
    t = fit_temperature(p, labels)

    def loss(log_t: float) -> float:
        return -float(np.log(tempered(p, math.exp(log_t))[np.arange(len(p)), labels]).mean())

    best = minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9})
    assert math.log(t) == pytest.approx(best.x, abs=1e-4)
    assert t == pytest.approx(temperature, rel=0.1)


@given(st.integers(0, 10**6), st.floats(0.05, 20))
@settings(max_examples=50, deadline=None)
def test_a_temperature_keeps_the_answers_and_gives_probabilities(seed: int, t: float) -> None:
    p, _ = case(seed, 20)
    q = tempered(p, t)
    assert np.isfinite(q).all() and q.sum(-1) == pytest.approx(np.ones(20))
    assert (q.argmax(-1) == p.argmax(-1)).all()
    assert ((q.max(-1) <= p.max(-1) + 1e-12) if t >= 1 else (q.max(-1) >= p.max(-1) - 1e-12)).all()


def test_a_model_that_is_too_sure_is_calibrated_by_others_images() -> None:
    p_val, y_val = case(2, 500, temperature=3.0)
    p, labels = case(3, 5000, temperature=3.0)
    found = calibrate(p, labels, p_val, y_val)
    assert found.after is not None and found.temperature == pytest.approx(3, rel=0.15)
    assert found.before.ece > 0.2 and found.after.ece < 0.05 and found.fitted_on == 500
    assert found.before == reliability(p, labels)
    assert found.after == reliability(tempered(p, found.temperature), labels)
    crossed = calibrate_on_itself(p_val, y_val)
    assert crossed.after is not None and "5-fold" in crossed.reason
    assert crossed.temperature == pytest.approx(fit_temperature(p_val, y_val))
    naive = reliability(tempered(p_val, crossed.temperature), y_val)
    assert crossed.after != naive and crossed.after.ece < crossed.before.ece / 2
    assert crossed.after.confidence == pytest.approx(naive.confidence, rel=0.02)
    assert sum(bin.images for bin in crossed.after.bins) == 500


def test_where_a_temperature_cannot_be_fitted_the_reason_is_said() -> None:
    p, labels = case(4, FEWEST_TO_FIT)
    assert calibrate(p, labels, p, labels).temperature is not None
    few = calibrate(p, labels, p[1:], labels[1:])
    assert few.temperature is None and few.after is None and few.before == reliability(p, labels)
    assert few.reason == "49 validation images are fewer than the 50 required"
    sure = calibrate_on_itself(p, p.argmax(-1))
    assert sure.temperature is None and "no validation image is wrong" in sure.reason
    assert sure.before == reliability(p, p.argmax(-1))
    assert calibrate(p, labels, p, p.argmax(-1)).reason == sure.reason
    assert measure(p, labels).calibration.reason == "there are no validation images"


def test_probabilities_that_underflowed_do_no_harm() -> None:
    p = np.tile(np.array([[1.0, 0.0, 0.0]], np.float32), (FEWEST_TO_FIT, 1))
    labels = np.arange(FEWEST_TO_FIT) % 10 == 0  # one in ten is of class 1, which has probability 0
    found = calibrate_on_itself(p, labels.astype(np.int64))
    assert found.temperature is not None and np.isfinite(found.temperature)
    assert found.after is not None and found.after.ece < found.before.ece


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_a_higher_threshold_never_accepts_more(seed: int) -> None:
    p, labels = case(seed, 100)
    levels = sweep(p.max(-1), p.argmax(-1) == labels)
    used = [level.used for level in levels]
    assert used == sorted(used, reverse=True) and all(0 <= u <= 1 for u in used)
    for level in levels:
        kept = p.max(-1) >= level.tau
        assert level.images == kept.sum()
        if kept.any():
            assert level.precision == (p.argmax(-1) == labels)[kept].mean()
        else:
            assert level.precision is None


def test_a_sweep_without_truth_has_no_precision() -> None:
    assert {level.precision for level in sweep(np.array([0.99, 0.7]), None)} == {None}
    assert [level.used for level in sweep(np.empty(0), None)] == [0.0] * 9


def test_kl_is_the_textbook_sum() -> None:
    p, q = [0.5, 0.25, 0.25, 0.0], [0.25, 0.25, 0.25, 0.25]
    assert kl(p, q) == pytest.approx(0.5 * math.log(2))
    assert kl(p, p) == 0
    assert kl(q, p) == math.inf
    assert math.isnan(kl(p, [1.0]))
