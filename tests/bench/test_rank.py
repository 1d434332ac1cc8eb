"""Friedman ranks: by hand, against scipy, and against the paper's own Table 2."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from tamatch.bench.plans import PLANS
from tamatch.bench.published import TABLE_2
from tamatch.bench.rank import disagreements, page, printed_errors, standings
from tamatch.bench.store import Store
from tests.bench.made import result


def test_by_hand() -> None:
    """In y, b and c share places 1 and 2; in x, c has no value and is left out."""
    errors = {"a": {"x": 1.0, "y": 9.0}, "b": {"x": 2.0, "y": 3.0}, "c": {"y": 3.0}}
    found = standings(errors)
    assert {k: v.rank for k, v in found.items()} == {"a": 2.0, "b": 1.75, "c": 1.5}
    assert (found["a"].error, found["c"].error) == (5.0, 3.0)
    assert (found["a"].settings, found["c"].settings) == (2, 1)
    assert list(found) == ["c", "b", "a"]


def test_against_scipy() -> None:
    values = np.random.default_rng(3).integers(0, 12, (15, 9)).astype(float)  # many ties
    ranks = rankdata(values, axis=0).mean(1)
    errors = {str(i): {str(j): v for j, v in enumerate(row)} for i, row in enumerate(values)}
    found = standings(errors)
    assert [found[str(i)].rank for i in range(15)] == pytest.approx(ranks)


def test_what_the_printed_table_1_yields_of_table_2() -> None:
    found = standings(printed_errors())
    assert len(found) == 18
    for method, (_, error) in TABLE_2.items():
        assert found[method].error == pytest.approx(error, abs=0.005)
    for method in ("flexmatch", "freematch", "tamatch"):
        assert found[method].rank == pytest.approx(TABLE_2[method][0], abs=0.005)
    assert disagreements(found) == [
        "FixMatch's Friedman rank: Table 1 yields 10.33, Table 2 prints 10.83.",
        "SoftMatch's Friedman rank: Table 1 yields 5.42, Table 2 prints 4.83.",
    ]


def test_fixmatch_ties_with_nobody() -> None:
    """So no rule for ties explains its printed rank."""
    errors = printed_errors()
    for setting, value in errors["fixmatch"].items():
        assert sum(row.get(setting) == value for row in errors.values()) == 1


def test_own_results_are_ranked_too(tmp_path: Path) -> None:
    given = Namespace(of="lt", scale=None, steps=None, results=tmp_path, score="error_last")
    assert len(page(given).grids) == 1
    errors = {"supervised": 1.0, "fixmatch": 30.0, "tamatch": 20.0}
    store = Store(tmp_path)
    for cell in PLANS["lt"].cells("lt", (0, 1)):
        if cell.method in errors:
            store.write(cell, result(cell, errors[cell.method] + cell.seed))
    _, own = page(given).grids
    assert "24 of 48 cells in" in own.title
    assert [row[:2] for row in own.rows] == [("TaMatch", "1.00"), ("FixMatch", "2.00")]
    assert own.rows[0][3] == "20.50"
    given.scale = "1/8"
    assert f"No run of this length is in {tmp_path}; the full length has 24." in page(given).notes
