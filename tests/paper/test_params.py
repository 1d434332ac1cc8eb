"""Our recipes against the appendix: every difference is meant, and listed."""

from __future__ import annotations

import pytest

from paper.params import DATA, DELIBERATE, OURS, TABLE_6, TABLE_7, differences, page
from tamatch.settings.recipes import PROTOCOLS


def test_every_deliberate_difference() -> None:
    assert differences() == {
        ("CIFAR-10-LT", "Weight Decay"): ("0.0005", "0.03"),  # printed in each other's
        ("CIFAR-10-LT", "Learning Rate"): ("0.03", "5e-4"),  # place
        ("CIFAR-10-LT", "Model EMA Momentum"): ("0.999", "0.0"),
        ("STL-10", "Layer Decay Rate"): ("0.65", "0.95"),
        ("EuroSat", "Weak Augmentation"): (
            "Random Crop, Random Horizontal Flip, Random Vertical Flip",
            "Random Crop, Random Horizontal Flip",
        ),
    }


def test_every_difference_has_a_reason_and_no_reason_is_stale() -> None:
    assert differences().keys() == DELIBERATE.keys()
    assert "not explained" not in " ".join(page().notes)


def test_all_printed_rows_are_covered() -> None:
    assert list(OURS) == list(TABLE_6) == list(TABLE_7)
    assert {c for table in (TABLE_6, TABLE_7) for row in table.values() for c in row} == set(DATA)


def test_what_is_only_described_is_not_called_equal() -> None:
    for grid in page().grids:
        marks = {row[0]: row[-1] for row in grid.rows}
        assert {name for name, mark in marks.items() if mark == "not compared"} == {
            "Scheduler", "Strong Augmentation",
        }  # fmt: skip
        strong = next(row for row in grid.rows if row[0] == "Strong Augmentation")
        assert strong[1] == "RandAugment, cut-out"


def test_flips_are_those_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROTOCOLS["cifar100"], "flips", "none")
    assert differences()["CIFAR-100", "Weak Augmentation"][0] == "Random Crop"


def test_the_precision_is_told() -> None:
    assert any("bfloat16" in note and "--precision fp32" in note for note in page().notes)


def test_lengths_that_the_text_gives() -> None:
    for data in ("cifar100", "stl10", "eurosat"):
        assert (PROTOCOLS[data]["steps"], PROTOCOLS[data]["warmup"]) == (204_800, 5_120)
    assert (PROTOCOLS["cifar10-lt"]["steps"], PROTOCOLS["cifar10-lt"]["warmup"]) == (262_144, 0)


def test_a_cell_of_its_own_spans_the_row() -> None:
    assert TABLE_6["Weight Decay"] == dict.fromkeys(("CIFAR-100", "STL-10", "EuroSat"), "5e-4")
