"""`make rows`: what is there stays, and a new method gets its rows."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tamatch.methods import METHODS, MethodEntry
from tamatch.methods.saw import SAW
from tests import rows


def test_what_is_there_stays() -> None:
    assert rows.with_entries(rows.TABLE.read_text()) == rows.TABLE.read_text()
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


def leave_out(patch: pytest.MonkeyPatch, *names: str) -> None:
    others = {name: row for name, row in METHODS.items() if name not in names}
    patch.setattr(rows, "METHODS", others)


def test_a_file_without_a_row_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, "uda", "regmixmatch")
    table = rows.TABLE.read_text()
    made = rows.with_entries(table)
    own, rest = made[: made.index(rows.PLACE)], made[made.index(rows.PLACE) :]
    assert table.endswith(rest) and rest.index('"saw": ') < 100
    assert own.endswith("""
    "regmixmatch": MethodEntry(
        "RegMixMatch",
        "regmixmatch:RegMixMatch",
        "FreeMatch, and losses on strong views into which another image was pasted, made smaller",
    ),
    "uda": MethodEntry(
        "UDA",
        "uda:UDA",
        "the strong view must agree with the sharpened prediction on the weak view, if confident",
    ),
""")


def test_a_file_of_two_methods_gets_its_rows_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out(monkeypatch, "supervised", "fully_supervised")
    with pytest.raises(SystemExit, match=r"/supervised.py defines Supervised and FullySupervised"):
        rows.with_entries("")


@pytest.mark.parametrize(
    ("words", "summary"),
    [
        ("A head. And more.", "a head"),
        ("SAW is a\nname. ", "SAW is a name"),
        ("FixMatch and 0.5 of it\n\n    L = 1.", "FixMatch and 0.5 of it"),
        ("Dash, and more", "Dash, and more"),  # a title
        ("Long " + 20 * "words ", "long " + 13 * "words " + "…"),
        (None, ""),
    ],
)
def test_summaries(words: str | None, summary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SAW, "__doc__", words)
    assert rows.told(SAW) == summary
    assert len(rows.entry_of("saw").splitlines()) == (3 if len(summary) < 70 else 5)


def contents(tree: Path) -> dict[str, bytes]:
    files = (p for p in tree.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {str(p.relative_to(tree)): p.read_bytes() for p in files}


def without(path: Path, pattern: str) -> None:
    text, count = re.subn(pattern, "", path.read_text())
    assert count
    path.write_text(text)


@pytest.mark.slow
def test_a_method_of_two_files_gets_everything_else(tmp_path: Path) -> None:
    """RegMixMatch once more, in a copy that has its file and its reference alone."""
    for name in ("tamatch", "tests", "docs"):
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(rows.ROOT / name, tmp_path / name, ignore=unwanted)
    shutil.copy(rows.README, tmp_path)
    before = contents(tmp_path)
    table, readme, page, reference, golden = (
        tmp_path / name
        for name in (
            "tamatch/methods/__init__.py", "README.md", "docs/methods.md", "docs/reference.md",
            "tests/golden/regmixmatch.json",
        )
    )  # fmt: skip
    without(table, r' {4}"regmixmatch": MethodEntry\(\n( {8}.*\n)+ {4}\),\n')
    without(readme, r"\| `regmixmatch` .*\n")
    without(page, r"\| `regmixmatch` .*\n")
    without(page, r"\n## RegMixMatch\n(?s:.*?)(?=\n## )")
    without(reference, r".*regmixmatch.*\n")
    golden.unlink()
    subprocess.run([sys.executable, "-m", "tests.rows"], cwd=tmp_path, check=True)

    after = contents(tmp_path)
    assert after.keys() == before.keys()  # with the golden file, which is as it was
    differing = {tmp_path / name for name in after if after[name] != before[name]}
    assert differing == {table, readme, page, reference}
    was = before["docs/reference.md"].decode()  # which has the names in the order of the table
    assert sorted(re.findall(r"\w+", reference.read_text())) == sorted(re.findall(r"\w+", was))
    link = "[2412.10741](https://arxiv.org/abs/2412.10741)"
    (row,) = re.findall(r"\| `regmixmatch` .*", readme.read_text())
    assert row.startswith("| `regmixmatch` | RegMixMatch | FreeMatch, and ") and link in row
    assert f"\n## RegMixMatch\n\n`regmixmatch` · {link} · [source]" in page.read_text()
    code = "from tamatch.methods import get; assert get('regmixmatch').__name__ == 'RegMixMatch'"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_a_section_stands_before_that_of_the_next_method() -> None:
    page = rows.PAGE.read_text()
    text = page.replace("## InfoMatch", "## Once InfoMatch")
    made = rows.methods_page(text)
    headings = [line for line in made.splitlines() if line.startswith("## ")]
    titles = [row.title for row in METHODS.values()]
    following = titles[titles.index("InfoMatch") + 1]
    assert headings[headings.index(f"## {following}") - 1] == "## InfoMatch"
    assert made.replace("\n" + rows.section("infomatch"), "", 1) == text
