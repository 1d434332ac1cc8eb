"""The error that is expected without a test set."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tamatch.errors import DataError
from tamatch.frozen import held_out
from tamatch.frozen.held_out import cross_validated_error, learning_curve
from tamatch.frozen.solver import solve
from tamatch.judge.trust import wilson

from .test_solver import blobs


def test_every_label_is_held_out_once_and_the_figure_is_near_the_truth() -> None:
    x, y, u, z = blobs(labels=15, pool=60, spread=1.2)
    found = cross_validated_error(x, y, u, 4)
    truth = float((solve(x, y, u, 4).logits(u).argmax(1) != z).double().mean())
    assert found.labels == 60 and found.error == found.wrong / 60
    assert 0 <= found.interval[0] <= found.error <= found.interval[1] <= 1
    assert found.interval[0] < truth < found.interval[1]


def test_a_held_out_label_is_not_seen() -> None:
    """Labels that mean nothing are guessed at random."""
    x, _, u, _ = blobs(labels=20, pool=20)
    y = torch.randint(4, (80,), generator=torch.Generator().manual_seed(0))
    assert cross_validated_error(x, y, u, 4).error > 0.5


def test_the_same_seed_gives_the_same_figure() -> None:
    x, y, u, _ = blobs(labels=4, pool=20, spread=1.2)
    assert cross_validated_error(x, y, u, 4, seed=3) == cross_validated_error(x, y, u, 4, seed=3)


def test_a_class_with_one_label_is_refused() -> None:
    x, y, u, _ = blobs(labels=3, pool=20)
    with pytest.raises(DataError, match="class number 0 has one"):
        cross_validated_error(x[2:], y[2:], u, 4)


def test_each_label_has_the_answer_of_a_solution_without_it() -> None:
    """Its image is in that solution's pool."""
    x, y, u, _ = blobs(labels=5, pool=20)
    belongs = torch.linspace(0.2, 1, len(u))
    curve = learning_curve(x, y, u, 4, fractions=(0.5,), belongs=belongs, seed=2)
    parts = held_out.parts_of(y, held_out.FOLDS, 2)
    assert curve.p is not None
    for part in range(held_out.FOLDS):
        held = parts == part
        amounts = torch.cat([torch.ones(int(held.sum())), belongs])
        found = solve(x[~held], y[~held], torch.cat([x[held], u]), 4, None, amounts)
        assert torch.equal(curve.p[held], found.q[: int(held.sum())].to(curve.p))


def test_only_the_judged_labels_are_held_out_and_counted() -> None:
    """As if the others had been chosen for doubt: here they are wrong, and are not judged."""
    x, y, u, _ = blobs(labels=10, pool=60)
    chosen = torch.arange(len(y)) % 10 < 1
    false = torch.where(chosen, (y + 1) % 4, y)
    whole, fair = (cross_validated_error(x, false, u, 4, judged=j) for j in (None, ~chosen))
    assert (whole.labels, fair.labels) == (40, 36)
    parts = held_out.parts_of(false, held_out.FOLDS, 0)
    [(wrong, _)] = held_out._guessed(x, false, u, 4, None, parts, (1.0,), 0)
    assert wrong[chosen].all() and whole.wrong == wrong.sum()  # the false ones are held against it
    assert whole.wrong > fair.wrong
    assert cross_validated_error(x, y, u, 4, judged=y >= 0) == cross_validated_error(x, y, u, 4)
    curve = learning_curve(x, false, u, 4, judged=~chosen)
    assert curve.p is None
    assert curve.outcomes[-1] == fair and curve.labels[-1] == round(40 - 36 / 5)


def test_a_label_that_is_alone_in_its_class_may_be_there_unless_it_is_judged() -> None:
    x, y, u, _ = blobs(labels=3, pool=20)
    judged = torch.arange(10) > 0
    assert cross_validated_error(x[2:], y[2:], u, 4, judged=judged).labels == 9


def test_the_curve_falls_and_twice_the_labels_are_no_worse() -> None:
    x, y, u, _ = blobs(labels=20, pool=30, spread=1.5)
    curve = learning_curve(x, y, u, 4)
    assert curve.labels == (26, 38, 51, 64) and len(curve.outcomes) == 4
    low, expected, high = curve.doubled
    assert curve.outcomes[-1] == cross_validated_error(x, y, u, 4)
    assert 0 <= low <= expected <= high <= 1
    assert expected <= curve.outcomes[-1].error


def test_the_slope_and_its_error_are_those_of_resampled_labels() -> None:
    """What each label brings, beside drawing the labels anew many times."""
    g = np.random.default_rng(0)
    hard = g.random(300)  # the same labels are wrong at all points, mostly
    wrong = np.array([hard + 0.1 * g.normal(size=300) < e for e in (0.4, 0.3, 0.25)]).astype(float)
    seen = (100, 150, 200)
    slope, deviation = held_out._trend(seen, wrong)
    drawn = [held_out._trend(seen, wrong[:, g.integers(300, size=300)])[0] for _ in range(2000)]
    assert slope == pytest.approx(np.mean(drawn), abs=0.1 * deviation)
    assert deviation == pytest.approx(np.std(drawn), rel=0.1)
    assert held_out._trend((5, 5), wrong[:2]) == (0.0, 0.0)


def test_the_range_for_twice_the_labels_counts_the_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, u, _ = blobs(labels=5, pool=1)  # of 20 labels, 16 are seen at a time
    guessed = torch.arange(20) < 6, torch.empty(20, 4)
    monkeypatch.setattr(held_out, "_guessed", lambda *_: [guessed, guessed])
    low, high = (1 - bound for bound in reversed(wilson(14, 20)))
    for slope, deviation, powers in (
        (0.5, 0.0, (0.5, 0.5, 0.5)), (0.5, 0.1, (0.696, 0.5, 0.304)), (0.5, 9.0, (1, 0.5, 0)),
        (-0.3, 0.1, (0, 0, 0)),
    ):  # fmt: skip
        monkeypatch.setattr(held_out, "_trend", lambda *_, t=(slope, deviation): t)
        curve = learning_curve(x, y, u, 4, fractions=(0.5,))
        assert curve.labels == (8, 16)
        ends = zip((low, 0.3, high), powers, strict=True)
        assert curve.doubled == pytest.approx([end * 2.5**-power for end, power in ends])
