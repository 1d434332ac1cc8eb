"""Writes what the repository says about each method: `make rows`.

A row of the table of methods for a file that has none; rows of README.md and docs/methods.md, a
first section there, docs/reference.md, and a golden file for a method that has none. What people
wrote stays; rows follow the order of the table of methods.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from tamatch.methods import METHODS, get
from tamatch.methods.base import Method
from tamatch.settings.config import method_options
from tamatch.settings.options import as_text
from tests import reference_page
from tests.golden import test_golden as golden
from tests.test_layers import SHARED

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tamatch" / "methods" / "__init__.py"
PLACE = "    # New rows are put here"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "methods.md"
ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


def with_entries(text: str) -> str:
    """The table of methods, with a row for each file that has none."""
    known = SHARED | {row.path.partition(":")[0] for row in METHODS.values()}
    new = sorted({path.stem for path in TABLE.parent.glob("*.py")} - known)
    return text.replace(PLACE, "".join(map(entry_of, new)) + PLACE)


def entry_of(file: str) -> str:
    """The row of a file's method; which options differ on a data set is for people to add."""
    module = import_module(f"tamatch.methods.{file}")
    classes = [c for name, c in vars(module).items() if isinstance(c, type) and name[0] != "_"]
    found = [c for c in classes if issubclass(c, Method) and c.__module__ == module.__name__]
    if len(found) != 1:
        names = " and ".join(c.__name__ for c in found) or "no method"
        sys.exit(
            f"tamatch/methods/{file}.py defines {names}, not one method. Write its rows in "
            "tamatch/methods/__init__.py, or name it in SHARED of tests/test_layers.py."
        )
    title = found[0].__name__
    cells = [json.dumps(x, ensure_ascii=False) for x in (title, f"{file}:{title}", told(found[0]))]
    line = ", ".join(cells)
    if len(line) > 92:  # beside an indent of eight
        line = ",\n        ".join(cells) + ","
    return f'    "{file}": MethodEntry(\n        {line}\n    ),\n'


def told(cls: type[Method]) -> str:
    """The first sentence about a class, as a summary that fits in a line of the table."""
    first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
    sentence = re.split(r"[.?!](?:\s|$)", " ".join(first.split()))[0]
    word = re.match(r"(A|[A-Z][a-z]+)\b", sentence)  # neither FixMatch nor VAT
    if word and word[0] not in {row.title for row in METHODS.values()}:
        sentence = sentence[0].lower() + sentence[1:]
    return textwrap.shorten(sentence, 89, placeholder=" …")


def with_rows(text: str, row: Callable[[str, list[str]], list[str]]) -> str:
    """A page whose table of methods has one row for each; `row` has the cells that are there."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("| `fixmatch` |"))
    first = last = at
    while lines[first - 1].startswith("| `"):
        first -= 1
    while lines[last + 1].startswith("| `"):
        last += 1
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines[first : last + 1]]
    there = {own[0].strip("`"): own[1:] for own in cells}
    made = [" | ".join([f"| `{name}`", *row(name, there.get(name, []))]) + " |" for name in METHODS]
    return "\n".join([*lines[:first], *made, *lines[last + 1 :]]) + "\n"


def row_of_readme(name: str, there: list[str]) -> list[str]:
    return [METHODS[name].title, METHODS[name].summary, there[2] if there else paper(name)]


def paper(name: str) -> str:
    """A link to the paper that the first line of the method's file names."""
    found = ARXIV.search(inspect.getdoc(sys.modules[get(name).__module__]) or "")
    return f"[{found[1]}](https://arxiv.org/abs/{found[1]})" if found else "–"


def row_of_page(name: str, there: list[str]) -> list[str]:
    return there or [", ".join(get(name).views.u) or "–", *["see its section"] * 4]


def section(name: str) -> str:
    """A first text about a method: its docstring and its options, for somebody to improve."""
    entry, told = METHODS[name], inspect.cleandoc(get(name).__doc__ or "")
    options = {k: o for k, o in method_options(name).items() if k != "parity"}
    listed = [o for k, o in options.items() if not entry.options or k in entry.options]
    words = " ".join(f"`{o.flag} {as_text(o.default)}`" for o in listed)
    file = f"{get(name).__module__.rpartition('.')[2]}.py"
    head = f"`{name}` · {paper(name)} · [source](../tamatch/methods/{file})"
    kind = "Fixes:" if entry.options else "Options:"
    return f"## {entry.title}\n\n{head}\n\n{told}\n\n{kind} {words or 'none'}\n"


def methods_page(text: str) -> str:
    headings = {*re.findall(r"^#+ (.+)$", text, re.MULTILINE)}
    titles = [row.title for row in METHODS.values()]
    for i, name in enumerate(METHODS):
        if titles[i] not in headings:
            places = (text.find(f"\n## {title}\n") for title in titles[i + 1 :])
            at = next((place for place in places if place >= 0), len(text))
            text = f"{text[:at]}\n{section(name)}{text[at:]}"
    return with_rows(text, row_of_page)


def main() -> None:
    old = TABLE.read_text()
    if (table := with_entries(old)) != old:
        TABLE.write_text(table)
        os.execv(sys.executable, [sys.executable, "-m", "tests.rows"])  # which reads the new table
    README.write_text(with_rows(README.read_text(), row_of_readme))
    PAGE.write_text(methods_page(PAGE.read_text()))
    reference_page.PAGE.write_text(reference_page.page())
    golden.write(name for name in METHODS if not golden.path(name).exists())


if __name__ == "__main__":
    main()
