"""The page of TaMatch-LT: its tables are those of the results."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from paper import tails
from paper.__main__ import main
from paper.evidence import short
from tamatch.bench.cells import FULL, Cell
from tamatch.bench.plans import PLANS
from tamatch.bench.results import Store
from tests.bench.made import result

ROOT = Path(__file__).parents[2]
EIGHTH = Fraction(1, 8)
SETTINGS = PLANS["tails"].settings


def test_the_tables_in_the_docs_are_those_of_the_results() -> None:
    """If this fails after a change of results/: `make paper` writes them anew."""
    there = (ROOT / "docs" / tails.PAGE).read_text()
    assert there == tails.with_tables(there, Store(ROOT / "results"))


def write(store: Store, method: str, seed: int, error: float, scale: Fraction = EIGHTH) -> None:
    cell = Cell("tails", SETTINGS[3], method, seed, scale)
    store.write(cell, result(cell, error))


def test_methods_are_compared_on_the_seeds_that_all_have(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for seed, error in enumerate((40.0, 38.0, 50.0)):
        write(store, "fixmatch", seed, error)
    for seed, error in ((0, 30.0), (1, 32.0)):
        write(store, "tamatch", seed, error)
    for seed, error in ((0, 20.0), (1, 24.0), (3, 90.0)):
        write(store, "tamatch_lt", seed, error)
    text = tails.tables(store)
    title = short(SETTINGS[3])
    assert f"| {title} | last | 39.00 | – | 31.00 | 22.00 | -9.00 | -17.00 | 0, 1 |" in text
    assert (
        f"| {title} | best (oracle) | 38.00 | – | 30.00 | 21.00 | -9.00 | -17.00 | 0, 1 |" in text
    )
    other = "; ".join(short(setting) for setting in SETTINGS if setting != SETTINGS[3])
    assert f"Not measured, runs of 1/8 of the full length: {other}." in text
    everything = "; ".join(short(setting) for setting in SETTINGS)
    assert text.endswith(f"Not measured, runs of full length: {everything}.")


def test_no_common_seed_is_no_measurement(tmp_path: Path) -> None:
    store = Store(tmp_path)
    write(store, "tamatch", 0, 30.0, FULL)
    write(store, "tamatch_lt", 1, 20.0, FULL)
    assert "|" not in tails.tables(store)


def test_the_report_writes_only_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "docs" / tails.PAGE
    page.parent.mkdir()
    page.write_text(f"# Before\n\n{tails.BEGIN}\nold\n{tails.END}\n\nAfter.\n")
    store = Store(tmp_path / "results")
    write(store, "tamatch_lt", 0, 20.0)
    words = [
        "report",
        "--results",
        str(store.folder),
        "--out",
        str(page.parent / "reproduction.md"),
    ]
    assert main(words) == 0
    text = page.read_text()
    assert text.startswith("# Before\n\n") and text.endswith(f"{tails.END}\n\nAfter.\n")
    assert "old" not in text and "| 20.00 |" in text
    with pytest.raises(ValueError, match="lacks"):
        tails.with_tables("no marks", store)


def test_a_score_that_a_run_lacks_is_not_shown_as_a_number(tmp_path: Path) -> None:
    store, cell = Store(tmp_path), Cell("tails", SETTINGS[0], "tamatch_lt", 0, EIGHTH)
    store.write(cell, replace(result(cell), error_best=None))
    assert "| best (oracle) | – | – | – | – | – | – | 0 |" in tails.tables(store)
