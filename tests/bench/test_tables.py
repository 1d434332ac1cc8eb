"""Tables: the numbers in them, what is missing, and the four formats."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tamatch.bench import rank
from tamatch.bench.plans import PLANS
from tamatch.bench.results import Curve, Store
from tamatch.bench.tables import FORMATS, Grid, Page, fuller_lengths, spread, table
from tamatch.errors import DataError
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
    assert page.notes[0].startswith("2 of 348 cells done; recipe 1.")
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
    for column in ("Δ last", "Δ best"):
        at = page.grids[0].header.index(column)
        moves = {row[0]: row[at] for row in page.grids[0].rows}
        assert moves["labelled images also in the pool"] == "+2.00"
        assert moves["TaMatch"] == moves["precision: float32"] == ""
    pool = dataclasses.replace(plan, methods=(), variants=plan.variants[:1])
    (alone,) = table(pool, pool.cells("causes"), store).grids[0].rows  # TaMatch is not shown
    assert alone[0] == "labelled images also in the pool" and alone[4:6] == ("+2.00", "+2.00")


def test_rows_of_different_seeds_are_told(tmp_path: Path) -> None:
    plan, store = PLANS["lt"], Store(tmp_path)
    cells = plan.cells("lt")
    here = [c for c in cells if c.setting == plan.settings[0]]
    warning = "Some rows of one table are means over different seeds"

    def told() -> bool:
        return any(note.startswith(warning) for note in table(plan, cells, store).notes)

    for cell in (c for c in here if c.method in ("tamatch", "fixmatch") and c.seed < 2):
        store.write(cell, result(cell))
    assert not told()
    (third,) = (c for c in here if (c.method, c.seed) == ("tamatch", 2))
    store.write(third, result(third))
    assert told()


def test_no_table_mixes_starts(tmp_path: Path) -> None:
    plan, store = PLANS["usb"], Store(tmp_path)
    cells = plan.cells("usb")
    first = {cell.setting: cell for cell in reversed(cells)}
    for cell, weights in zip(first.values(), ("base.npz", None, "small.npz"), strict=False):
        store.write(cell, result(cell, config={"weights": weights}))
    assert "base.npz (1 runs), random" in " ".join(table(plan, cells, store).notes)  # other columns
    other = dataclasses.replace(cells[0], seed=1)
    store.write(cells[0], result(cells[0], config={"weights": "small.npz"}))
    store.write(other, result(other))
    told = f"{store.path(cells[0])} started from small.npz, {store.path(other)} from random weights"
    with pytest.raises(DataError, match=told):
        table(plan, cells, store)
    with pytest.raises(DataError, match=told):
        given = {"of": "usb", "methods": None, "scale": None, "steps": None, "score": "error_last"}
        rank.page(Namespace(**given, results=tmp_path))


def test_no_table_mixes_scales(tmp_path: Path) -> None:
    plan, store = PLANS["digits"], Store(tmp_path)
    full, short = plan.cells("digits"), plan.cells("digits", scale=Fraction(1, 8))
    store.write(full[0], result(full[0]))
    assert table(plan, full, store).notes[0].startswith(f"1 of {len(full)}")
    page = table(plan, short, store)
    assert page.notes[0].startswith(f"0 of {len(short)}")
    assert "Runs of 1/8 of the full length:" in page.notes
    assert page.grids[0].title == "embedded digits, 40 labels, runs of 1/8 of the full length"
    assert table(plan, full, store).grids[0].title == "embedded digits, 40 labels"


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


def test_a_thin_table_says_where_more_runs_are(tmp_path: Path) -> None:
    plan, store = PLANS["digits"], Store(tmp_path)
    eighth, full = (plan.cells("digits", scale=Fraction(s)) for s in ("1/8", "1"))
    for cell in (eighth[0], eighth[1], full[0]):
        store.write(cell, result(cell))
    told = f"There are more runs of another length: --scale 1/8 has 2 of {len(full)}."
    assert fuller_lengths(full, store) == [told]
    assert not fuller_lengths(eighth, store)
    assert not fuller_lengths(full[1:], store)  # there are none: the table says so itself


def test_a_table_without_a_folder_of_results_says_so(tmp_path: Path) -> None:
    plan = PLANS["digits"]
    cells = plan.cells("digits")
    told = "There is no folder nowhere here; --results names the folder of results."
    assert table(plan, cells, Store(Path("nowhere"))).notes[-1] == told
    assert not any("no folder" in note for note in table(plan, cells, Store(tmp_path)).notes)


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


def latex_code(page: Page) -> list[str]:
    """What is compiled: all but the title, a comment."""
    title, *code = FORMATS["latex"](page).splitlines()
    assert title == f"% {page.title}" and "\n".join(code).isascii()
    assert not any(line.startswith("%") for line in code)
    return code


def test_latex_is_plain_ascii_but_for_its_title() -> None:
    code = latex_code(PAGE)
    assert r"\caption{$\gamma$ = 100 \%}" in code
    assert r"\textless{}$\Pi$\textgreater{} & 1.0 $\pm$ 0.1 \\" in code
    assert r"name\_1 & a\textbar{}b \\" in code


def test_latex_prints_the_notes_below_the_last_table() -> None:
    grid = Grid("G", ("h1", "h2"), [("r1", "–")])
    notes = ["`a_b` → 5 %.", 'See "--scale".']
    code = latex_code(Page("T", [grid, dataclasses.replace(grid)], notes))
    assert [line for line in code if "footnotesize" in line] == code[-3:-1]
    assert code[-3].endswith(r"\texttt{a\_b} $\to$ 5 \%.")
    assert code[-2].endswith("See ``-{}-scale''.") and code[-1] == r"\end{table}"
    assert code.count(r"r1 & \textendash{} \\") == 2


@pytest.mark.parametrize("bench", PLANS)
def test_the_latex_of_every_table_is_plain(bench: str, tmp_path: Path) -> None:
    plan = PLANS[bench]
    code = latex_code(table(plan, plan.cells(bench, scale=Fraction(1, 8)), Store(tmp_path)))
    captions = [line for line in code if line.startswith(r"\caption")]
    assert len(captions) == len(plan.settings)
    assert all("runs of 1/8 of the full length" in caption for caption in captions)


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
