"""Friedman ranks: by hand, against scipy, and against the paper's own Table 2."""

from __future__ import annotations

from argparse import Namespace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import rankdata

from tamatch.bench.cells import FULL
from tamatch.bench.plans import PLANS
from tamatch.bench.published import TABLE_1, TABLE_2
from tamatch.bench.rank import disagreements, page, printed_errors, standings
from tamatch.bench.results import Store
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


def ask(results: Path, of: str = "lt", scale: str | None = None) -> Namespace:
    given = {"of": of, "methods": None, "scale": scale, "steps": None, "score": "error_last"}
    return Namespace(**given, results=results)


def fill(store: Store, bench: str, scale: Fraction, errors: dict[str, float]) -> None:
    for cell in PLANS[bench].cells(bench, (0, 1), scale):
        if cell.method in errors:
            store.write(cell, result(cell, errors[cell.method] + cell.seed))


def test_own_results_are_ranked_too(tmp_path: Path) -> None:
    given = ask(tmp_path)
    assert len(page(given).grids) == 1
    fill(Store(tmp_path), "lt", FULL, {"supervised": 1.0, "fixmatch": 30.0, "tamatch": 20.0})
    _, own = page(given).grids
    assert "24 of 48 cells done" in own.title
    assert [row[:2] for row in own.rows] == [("TaMatch", "1.00"), ("FixMatch", "2.00")]
    assert own.rows[0][3] == "20.50"
    given.scale = "1/8"
    assert f"No run of this length is in {tmp_path}; the full length has 24." in page(given).notes


def test_only_settings_in_which_all_have_results_are_ranked(tmp_path: Path) -> None:
    store = Store(tmp_path)
    fill(store, "lt", FULL, {"fixmatch": 30.0, "tamatch": 20.0})
    (note,) = (note for note in page(ask(tmp_path)).notes if note.startswith("Not ranked"))
    assert note == "Not ranked, for lack of results: FreeMatch."
    last = [cell for cell in PLANS["lt"].cells("lt", (0,)) if cell.method == "freematch"][-1]
    store.write(last, result(last, 10.0))
    shown = page(ask(tmp_path))
    assert [row[:2] for row in shown.grids[1].rows] == [
        ("FreeMatch", "1.00"), ("TaMatch", "2.00"), ("FixMatch", "3.00"),
    ]  # fmt: skip
    assert {row[-1] for row in shown.grids[1].rows} == {"1"}
    left_out = [note for note in shown.notes if "is left out" in note]
    assert left_out[0] == "CIFAR-10-LT, 1500 / 3000, γ = 100 is left out: no result of FreeMatch."
    assert len(left_out) == 3
    for cell in PLANS["lt"].cells("lt", (0, 1)):
        if cell.setting == last.setting and cell.method == "tamatch":
            store.path(cell).unlink()
    assert len(page(ask(tmp_path)).grids) == 1  # no setting is left


def test_methods_are_compared_in_the_seeds_that_all_have(tmp_path: Path) -> None:
    """Seed 1 is a hard draw of labels: a method is not worse for having been run with it."""
    store, cells = Store(tmp_path), PLANS["lt"].cells("lt", (0, 1))
    of = {(c.setting.name, c.method, c.seed): c for c in cells}
    for setting in ("lt-1500-3000-100", "lt-1500-3000-150"):
        for method, seed, error in (
            ("fixmatch", 0, 30.0), ("tamatch", 0, 20.0), ("tamatch", 1, 50.0),
        ):  # fmt: skip
            cell = of[setting, method, seed]
            store.write(cell, result(cell, error))
    shown = page(ask(tmp_path))
    assert [row[0] for row in shown.grids[1].rows] == ["TaMatch", "FixMatch"]
    assert [row[3] for row in shown.grids[1].rows] == ["20.00", "30.00"]
    by = "is ranked by the seeds that all methods have: 0."
    assert f"CIFAR-10-LT, 1500 / 3000, γ = 100 {by}" in shown.notes
    store.path(of["lt-1500-3000-150", "tamatch", 0]).unlink()
    shown = page(ask(tmp_path))
    assert {row[-1] for row in shown.grids[1].rows} == {"1"}
    why = "is left out: there is no seed that all methods have."
    assert f"CIFAR-10-LT, 1500 / 3000, γ = 150 {why}" in shown.notes


def test_what_the_paper_has_no_value_of_holds_up_no_setting(tmp_path: Path) -> None:
    """CRMatch is not run on STL-10; the paper's ranks are shown beside a whole table alone."""
    store = Store(tmp_path)
    errors = dict.fromkeys(TABLE_1, 20.0)
    fill(store, "usb", FULL, errors)
    own = {row[0]: row for row in page(ask(tmp_path, "usb")).grids[1].rows}
    assert own["CRMatch"][-1] == "4" and own["TaMatch"][-1] == "6"
    assert own["TaMatch"][2] == "2.00"
    for cell in PLANS["usb"].cells("usb", (0, 1)):
        if cell.method == "crmatch":
            store.path(cell).unlink()
    own = {row[0]: row for row in page(ask(tmp_path, "usb")).grids[1].rows}
    assert own["TaMatch"][-1] == "6" and own["TaMatch"][2] == ""


def test_the_paper_s_ranks_are_not_beside_those_of_another_table(tmp_path: Path) -> None:
    fill(Store(tmp_path), "lt", FULL, dict.fromkeys(PLANS["lt"].methods, 20.0))
    shown = page(ask(tmp_path))
    assert not [note for note in shown.notes if note.startswith("Not ranked")]
    assert {(row[2], row[4]) for row in shown.grids[1].rows} == {("", "")}


def test_ranks_say_what_runs_they_are_of(tmp_path: Path) -> None:
    fill(Store(tmp_path), "usb", Fraction(1, 8), {"fixmatch": 30.0, "tamatch": 20.0})
    shown = page(ask(tmp_path, "usb", "1/8"))
    assert ", runs of 1/8 of the full length: 24 of 348" in shown.grids[1].title
    notes = " ".join(shown.notes)
    assert "204,800 → 25,600" in notes and "Started from: random weights (24 runs)." in notes
    assert "Made by 0123456789ab on cpu." in notes
