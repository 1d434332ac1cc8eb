"""Tables: the numbers in them, what is missing, and the four formats."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tamatch.bench.curves import Curve
from tamatch.bench.formats import FORMATS, Grid, Page
from tamatch.bench.plans import PLANS
from tamatch.bench.store import Store
from tamatch.bench.tables import spread, table
from tests.bench.made import result


def test_mean_and_deviation() -> None:
    assert spread([]) == "missing"
    assert spread([12.345]) == "12.35"
    assert spread([1.0, 2.0, 4.5]) == "2.50 ± 1.80"  # sqrt((2.25 + 0.25 + 4) / 2)


def test_a_table_with_holes(tmp_path: Path) -> None:
    plan, store = PLANS["usb"], Store(tmp_path)
    cells = plan.cells("usb")
    wanted = [c for c in cells if (c.setting.name, c.method) == ("stl10-40", "tamatch")]
    for cell, error in zip(wanted[:2], (14.0, 16.0), strict=True):
        store.write(cell, result(cell, error))
    page = table(plan, cells, store)
    assert page.notes[0].startswith("2 of 348 cells in; recipe 1.")
    assert "ddof = 1" in page.notes[0]
    stl10 = {row[0]: row[1:] for row in page.grids[2].rows}
    assert page.grids[2].header == (
        "method", "last", "median of last 20", "best (oracle)", "paper", "n",
    )  # fmt: skip
    ours = ("15.00 ± 1.41", "16.00 ± 1.41", "14.00 ± 1.41")
    assert stl10["TaMatch"] == (*ours, "14.11±1.65", "2/3")
    assert stl10["FixMatch"] == ("missing",) * 3 + ("16.15±1.89", "0/3")
    assert stl10["CRMatch"] == ("–",) * 3 + ("N/A", "–")
    assert stl10["Fully Supervised"] == ("–",) * 3 + ("-", "–")


def test_what_a_cause_moves(tmp_path: Path) -> None:
    """Over the seeds that both have: 31 − 30 and 34 − 31; TaMatch's seed 2 has no partner."""
    plan, store = PLANS["causes"], Store(tmp_path)
    cells = plan.cells("causes")
    errors = {"tamatch": (30.0, 31.0, 90.0), "pool": (31.0, 34.0), "fp32": ()}
    for row, values in errors.items():
        own = [c for c in cells if c.row == row]
        for cell, error in zip(own, values, strict=False):
            store.write(cell, result(cell, error))
    page = table(plan, cells, store)
    at = page.grids[0].header.index("moves")
    moves = {row[0]: row[at] for row in page.grids[0].rows}
    assert moves["labelled images also in the pool"] == "+2.00"
    assert moves["TaMatch"] == moves["precision: float32"] == ""


def test_no_table_mixes_scales(tmp_path: Path) -> None:
    plan, store = PLANS["digits"], Store(tmp_path)
    full, short = plan.cells("digits"), plan.cells("digits", scale=Fraction(1, 8))
    store.write(full[0], result(full[0]))
    assert table(plan, full, store).notes[0].startswith("1 of 72")
    page = table(plan, short, store)
    assert page.notes[0].startswith("0 of 72")
    assert "Runs of 1/8 of the full length:" in page.notes


def test_an_empty_table_says_at_which_lengths_runs_are_in(tmp_path: Path) -> None:
    plan, store = PLANS["digits"], Store(tmp_path)
    eighth, third, full = (plan.cells("digits", scale=Fraction(s)) for s in ("1/8", "1/3", "1"))
    for cell in (eighth[0], eighth[1], third[0]):
        store.write(cell, result(cell))
    (tmp_path / eighth[0].setting.name / "notes.of.mine.r1.json").write_text("{}")
    none = f"No run of this length is in {tmp_path};"
    assert table(plan, full, store).notes[-1] == f"{none} --scale 1/8 has 2, --scale 1/3 has 1."
    assert not any(note.startswith(none) for note in table(plan, eighth, store).notes)
    assert not any(note.startswith(none) for note in table(plan, full[2:3], store).notes)
    store.write(full[2], result(full[2]))
    halves = plan.cells("digits", scale=Fraction(1, 2))[2:3]
    assert table(plan, halves, store).notes[-1] == f"{none} the full length has 1."


def test_few_tests_and_mixed_origins_are_told(tmp_path: Path) -> None:
    plan, store = PLANS["digits"], Store(tmp_path)
    first, second, *_ = cells = plan.cells("digits")
    store.write(first, dataclasses.replace(result(first), error=Curve([1, 2], [50.0, 40.0])))
    dirty = {"commit": None, "gpu": "NVIDIA H200", "device": "cuda"}
    store.write(second, result(second, made=dirty))
    notes = " ".join(table(plan, cells, store).notes)
    assert "Tests in a run: 2;" in notes
    assert "0123456789ab, an unknown commit on NVIDIA H200, cpu" in notes


PAGE = Page(
    "Table X & more", [Grid("γ = 100 %", ("name_1", "a|b"), [("<Π>", "1.0 ± 0.1")])], ["A <note>."]
)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_hold_all_cells(name: str) -> None:
    page = Page("T", [Grid("G", ("h1", "h2"), [("r1", "1.25"), ("r2", "2.5")])], ["N"])
    shown = FORMATS[name](page)
    for word in ("T", "G", "h1", "h2", "r1", "1.25", "r2", "2.5", "N"):
        assert word in shown
    assert shown.endswith("\n") and not shown.endswith("\n\n")


def test_text_is_aligned() -> None:
    page = Page("T", [Grid("G", ("method", "n"), [("a", "10.00"), ("long name", "1")])], [])
    lines = FORMATS["text"](page).splitlines()
    assert "a          10.00" in lines and "long name      1" in lines


def test_latex_is_plain_ascii_but_for_comments() -> None:
    code = [line for line in FORMATS["latex"](PAGE).splitlines() if not line.startswith("%")]
    assert "\n".join(code).isascii()
    assert r"\caption{$\gamma$ = 100 \%}" in code
    assert r"<$\Pi$> & 1.0 $\pm$ 0.1 \\" in code
    assert r"name\_1 & a|b \\" in code


@pytest.mark.parametrize("bench", [name for name, plan in PLANS.items() if not plan.figure])
def test_the_latex_of_every_table_is_plain(bench: str, tmp_path: Path) -> None:
    page = table(PLANS[bench], PLANS[bench].cells(bench), Store(tmp_path))
    code = [line for line in FORMATS["latex"](page).splitlines() if not line.startswith("%")]
    assert "\n".join(code).isascii()


def test_markdown_escapes_its_bars() -> None:
    assert r"| name_1 | a\|b |" in FORMATS["markdown"](PAGE)


def test_html_is_escaped_and_balanced() -> None:
    shown = FORMATS["html"](PAGE)
    assert "&lt;Π&gt;" in shown and "<Π>" not in shown and "A &lt;note&gt;." in shown
    open_tags: list[str] = []

    class Check(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag != "meta":
                open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Check().feed(shown)
    assert not open_tags
