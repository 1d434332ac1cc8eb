"""The toy: its first step by exact probabilities, its claims at reduced size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paper.toy import BATCHES, Amplification, claims, simulate, verdict


@pytest.mark.parametrize("batch", [1, 4, 16])
def test_one_step_by_exact_probabilities(batch: int) -> None:
    """From p1 the KL grows for those counts k of class 1 that move θ away from 0."""
    found = simulate(batch, starts=7, trajectories=20_000, steps=1)
    for i, p1 in enumerate(found.starts):
        theta = math.log(1 / p1 - 1)
        grows = [
            math.comb(batch, k) * p1**k * (1 - p1) ** (batch - k)
            for k in range(batch + 1)
            if abs(theta - (k / batch - p1)) > abs(theta) + 1e-6
        ]
        for reading in ("step", "end"):  # after one step they are the same
            assert found.shares[reading][i] == pytest.approx(sum(grows), abs=0.018)


@pytest.fixture(scope="module")
def found() -> list[Amplification]:
    return [simulate(batch, starts=8, trajectories=400, steps=200) for batch in BATCHES]


def test_a_single_step_supports_both_claims(found: list[Amplification]) -> None:
    for one in found:
        ends, middle = one.shares["step"][[0, -1]].mean(), one.shares["step"][3:5].mean()
        assert ends > middle
    means = [one.shares["step"].mean() for one in found]
    assert means == sorted(means, reverse=True)


def test_start_against_end_contradicts_the_first_claim(found: list[Amplification]) -> None:
    for one in found[1:]:
        assert one.shares["end"][[0, -1]].mean() < one.shares["end"][3:5].mean() - 0.05
    means = [one.shares["end"].mean() for one in found]
    assert means == sorted(means, reverse=True)


def test_the_text_says_so(found: list[Amplification]) -> None:
    step, one, two, end, three, four = claims(found)
    assert "single step" in step and "at the end" in end
    assert "Claim 1" in one and "holds" in one and "contradicted" not in one
    assert "Claim 2" in two and "holds" in two
    assert "Claim 1" in three and "is contradicted" in three
    assert "Claim 2" in four and "holds" in four and "contradicted" not in four


def test_known_values() -> None:
    """Per-step probabilities that longer simulations settle at."""
    found = simulate(16, starts=19, trajectories=300, steps=1000, seed=1)
    known = {0.05: 0.61, 0.1: 0.58, 0.2: 0.56, 0.3: 0.55, 0.5: 0.55}
    for start, share in known.items():
        at = int(np.argmin(np.abs(found.starts - start)))
        assert found.shares["step"][at] == pytest.approx(share, abs=0.02)


def test_verdicts() -> None:
    assert verdict(0.1, 0.01) == "holds"
    assert verdict(-0.1, 0.01) == "is contradicted"
    assert verdict(0.02, 0.01) == "undecided"
