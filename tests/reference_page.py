"""Writes docs/reference.md from the parsers and the options: `python -m tests.reference_page`."""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tamatch
from tamatch.bench import BENCHES
from tamatch.cli.commands import top_parser
from tamatch.cli.parser import Parser
from tamatch.methods import METHODS
from tamatch.settings.config import RUN_OPTIONS, method_options
from tamatch.settings.options import Option

PAGE = Path(__file__).parents[1] / "docs" / "reference.md"
HEAD = """\
# Reference

Every command, every option and every public name. This page is written by
`python -m tests.reference_page` from the program itself, and a test compares the two. For what they
are good for, see the [other pages](index.md).
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## Commands\n"]
    for name, parser in commands().items():
        parts.append(f"### tamatch {name}\n\n{sentence(parser.description)}\n")
        parts.append(run_options() if name == "train" else "")
        own = [row for row in rows(parser) if name != "train" or row[0] not in flags_of_runs()]
        parts.append(table(("argument", "meaning"), own))
    parts.append("## Options of the methods\n\nAfter the others of `tamatch train`.\n")
    parts.append(table(("option", "takes", "meaning", "default by method"), methods()))
    parts.append("## Benches\n")
    for name, bench in BENCHES.items():
        parts.append(f"### tamatch bench {name}\n\n{sentence(bench.summary)}\n")
        parts.append(table(("argument", "meaning"), [*rows(bench_parser(name))]))
    parts.append("## Python\n")
    parts += [entry for name in tamatch.__all__ if name[0] != "_" for entry in python(name)]
    return "\n".join(part for part in parts if part)


def commands() -> dict[str, argparse.ArgumentParser]:
    action = next(a for a in top_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def bench_parser(name: str) -> argparse.ArgumentParser:
    parser = Parser(prog=f"tamatch bench {name}", allow_abbrev=False)
    parser.set_defaults(bench=name)
    importlib.import_module(f"tamatch.bench.{BENCHES[name].module}").add_arguments(parser)
    return parser


def rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, ...]]:
    for action in parser._actions:
        if action.dest in ("help", "rest"):
            continue
        takes = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
        if action.choices:
            takes = " | ".join(map(str, action.choices))
        names = " or ".join(action.option_strings)
        word = f"{names} {takes}".strip() if names else str(takes)
        yield f"`{word}`", sentence(action.help)


def flags_of_runs() -> set[str]:
    """The rows of `train` that have a table of their own."""
    parser = commands()["train"]
    own = {a.option_strings[0] for a in parser._actions if a.dest in RUN_OPTIONS}
    return {row[0] for row in rows(parser) if row[0].strip("`").split()[0] in own}


def run_options() -> str:
    found = [
        (f"`{o.flag}`", takes(o), sentence(o.help), "automatic, or from the recipe" if o.required
         else "–" if o.default is None else f"`{value(o.default)}`")
        for o in RUN_OPTIONS.values()
    ]  # fmt: skip
    return table(("option", "takes", "meaning", "default"), found)


def methods() -> list[tuple[str, ...]]:
    """One row an option, with the methods that share its meaning."""
    shared: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for name in METHODS:
        for o in method_options(name).values():
            key = (f"`{o.flag}`", takes(o), sentence(o.help))
            shared.setdefault(key, {}).setdefault(value(o.default), []).append(name)
    return [
        (*key, "; ".join(f"`{default}`: {', '.join(names)}" for default, names in by.items()))
        for key, by in sorted(shared.items())
    ]


def takes(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    if option.bounds is not None:
        return f"must {option.bounds}"
    return {bool: "on or off", tuple: "numbers with commas"}.get(option.type, option.type.__name__)


def value(default: Any) -> str:
    return (
        {True: "on", False: "off"}.get(default, default)
        if isinstance(default, bool)
        else (
            f"{default:g}"
            if isinstance(default, float) and default != int(default)
            else str(default)
        )
    )


def python(name: str) -> Iterator[str]:
    """A public name: what it is, and its public methods."""
    thing = getattr(tamatch, name)
    yield f"### tamatch.{name}\n\n```text\n{name}{signature(thing)}\n```\n\n{text(thing)}\n"
    if not inspect.isclass(thing):
        return
    members = [
        (f"`.{member}{signature(found) if callable(found) else ''}`", text(found).split("\n\n")[0])
        for member, found in own_members(thing).items()
        if member[0] != "_" and (callable(found) or isinstance(found, property | classmethod))
    ]
    if members:
        yield table(("member", "meaning"), members)


def own_members(kind: type) -> dict[str, Any]:
    """What a class and those of its base classes define that are ours; the class itself first."""
    found: dict[str, Any] = {}
    for owner in kind.__mro__:
        if owner.__module__.partition(".")[0] == tamatch.__name__:
            found |= {name: value for name, value in vars(owner).items() if name not in found}
    return found


def signature(thing: Any) -> str:
    try:
        return str(inspect.signature(thing)).replace("'", "")
    except (TypeError, ValueError):
        return ""


def text(thing: Any) -> str:
    found = thing.__func__ if isinstance(thing, classmethod) else thing
    return inspect.cleandoc(getattr(found, "__doc__", None) or "").strip()


def sentence(words: str | None) -> str:
    words = (words or "").strip()
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "?")) or not words else ".")


def table(header: tuple[str, ...], found: list[tuple[str, ...]]) -> str:
    if not found:
        return ""
    lines = [header, ("---",) * len(header), *found]
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
