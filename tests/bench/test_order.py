"""How far two orders of methods agree: SciPy's τ, and an interval that says what it is of."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from tamatch.bench.cells import Plan
from tamatch.bench.order import LEAST, agreement, agreements
from tamatch.bench.plans import PLANS, STAND_IN
from tamatch.bench.published import TABLE_1

METHODS = [f"m{i}" for i in range(12)]


def test_equal_and_opposite_orders() -> None:
    ours = {method: float(i) for i, method in enumerate(METHODS)}
    assert agreement(ours, ours) == pytest.approx((12, 1.0, 1.0, 1.0))
    opposite = {method: -error for method, error in ours.items()}
    assert agreement(ours, opposite) == pytest.approx((12, -1.0, -1.0, -1.0))
    assert agreement(ours, dict.fromkeys(METHODS, 3.0)) == (12, 0.0, 0.0, 0.0)  # no order at all


def test_the_interval_is_that_of_resampled_methods() -> None:
    """Compared with resamples drawn here; ties in the data, and methods that only one side has."""
    draw = np.random.default_rng(5)
    values = draw.normal(size=12)
    ours = dict(zip(METHODS, values.round(1).tolist(), strict=True))
    noisy = (values + draw.normal(size=12)).round(1).tolist()
    theirs = dict(zip(METHODS, noisy, strict=True))
    found = agreement(ours | {"only ours": 0.0}, theirs | {"only theirs": 0.0})
    assert found is not None and found.methods == 12
    assert found.tau == pytest.approx(kendalltau([*ours.values()], noisy).statistic)
    rows = draw.integers(0, 12, (2000, 12))
    a, b = np.array([*ours.values()]), np.array(noisy)
    taus = [kendalltau(a[row], b[row]).statistic for row in rows]
    low, high = np.nanpercentile(taus, [2.5, 97.5])
    assert found.low == pytest.approx(low, abs=0.06) and found.high == pytest.approx(high, abs=0.06)
    assert found.low < found.tau < found.high
    assert agreement(ours, theirs) == agreement(ours, theirs)  # one seed, one interval


def test_too_few_methods_are_not_compared() -> None:
    few = {method: float(i) for i, method in enumerate(METHODS[: LEAST - 1])}
    assert agreement(few, few) is None


def test_ranks_are_compared_over_settings_that_print_all_of_our_methods() -> None:
    plan = PLANS["stand-in"]
    own = [method for method in TABLE_1 if "supervised" not in method]
    errors = {
        method: {s.name: float(i) for s in STAND_IN} for i, method in enumerate(own)
    }  # fmt: skip
    found = agreements(plan, errors)
    titles = [setting.title for setting in STAND_IN]
    assert [*found] == [*titles, f"Friedman rank over {titles[0]} and {titles[1]}"]
    assert [one.methods for one in found.values()] == [18, 18, 16, 16, 18]
    del errors["tamatch"], errors["defixmatch"]  # of which the benchmark has no CIFAR-10
    assert [*agreements(plan, errors)][-1] == f"Friedman rank over {' and '.join(titles)}"
    assert agreements(Plan("none", (), STAND_IN), errors) == {}
