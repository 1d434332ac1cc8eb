"""`make rows`: what is there stays, and a new method gets its rows."""

from __future__ import annotations

import pytest

from tamatch.methods import METHODS, MethodEntry
from tests import rows


def test_what_is_there_stays() -> None:
    assert rows.with_rows(rows.README.read_text(), rows.row_of_readme) == rows.README.read_text()
    assert rows.methods_page(rows.PAGE.read_text()) == rows.PAGE.read_text()


def test_a_new_method_gets_rows_and_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    new = MethodEntry("New", "fixmatch:FixMatch", "something new", {"tau": 0.5})
    monkeypatch.setitem(METHODS, "new", new)
    readme = rows.with_rows(rows.README.read_text(), rows.row_of_readme)
    link = "[2001.07685](https://arxiv.org/abs/2001.07685)"
    assert f"\n| `new` | New | something new | {link} |\n" in readme
    page = rows.methods_page(rows.PAGE.read_text())
    assert "\n| `new` | weak, strong | see its section |" in page
    head = f"## New\n\n`new` · {link} · [source](../tamatch/methods/fixmatch.py)\n\n"
    assert head in page and page.endswith("\n\nFixes: `--tau 0.5`\n")


def test_a_section_stands_before_that_of_the_next_method() -> None:
    page = rows.PAGE.read_text()
    text = page.replace("## InfoMatch", "## Once InfoMatch")
    made = rows.methods_page(text)
    headings = [line for line in made.splitlines() if line.startswith("## ")]
    assert headings[headings.index("## SAW") - 1] == "## InfoMatch"
    assert made.replace("\n" + rows.section("infomatch"), "", 1) == text
