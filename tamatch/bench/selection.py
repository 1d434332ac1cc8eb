"""Which cells of a bench the user wants: `--methods --seeds --settings --cell --scale --steps`."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType

from .. import methods
from ..errors import UsageError, unknown_name
from ..own import usercode
from .cells import Cell, Plan
from .plans import PLANS
from .scale import FULL, checked, full_steps, parse_scale

ALL = "all"
DIGITS = 12  # of a checksum


def names(flag: str, text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """The known names that the user listed, in their own order; `all` or no list means all."""
    wanted = [word.strip() for word in (ALL if text is None else text).split(",")]
    for word in wanted:
        if word not in (*known, ALL):
            raise unknown_name(flag, word, known)
    return tuple(name for name in known if name in wanted or ALL in wanted)


def one_name(flag: str, text: str, known: tuple[str, ...]) -> str:
    """The one known name that the user gave."""
    chosen = names(flag, text, known)
    if len(chosen) > 1:
        raise UsageError(f"{flag} takes one name, got {text!r}.")
    return chosen[0]


def share(text: str | None, cells: list[Cell]) -> list[Cell]:
    """`--cell K/N`: job K of an array of N, which takes every N-th cell."""
    if text is None:
        return cells
    job, slash, jobs = text.partition("/")
    if not (slash and job.isdecimal() and jobs.isdecimal() and 1 <= int(job) <= int(jobs)):
        raise UsageError(f"--cell takes K/N with K from 1 to N, got {text!r}.")
    return cells[int(job) - 1 :: int(jobs)]


def scale_of(plan: Plan, scale: str | None, steps: int | None) -> Fraction:
    """The share of the full length; `--steps N` is the share that makes N steps."""
    if scale is not None and steps is not None:
        raise UsageError("--scale and --steps both set the length of a run: give only one.")
    if steps is None:
        return FULL if scale is None else parse_scale(scale)
    return checked(Fraction(steps, full_steps(plan.settings[0].data)), f"--steps {steps}")


def selected_plan(arguments: Namespace) -> Plan:
    """The bench's plan with the rows and columns that were asked for."""
    plan = PLANS[arguments.bench]
    known = {setting.name: setting for setting in plan.settings}
    wanted = names("--settings", arguments.settings, tuple(known))
    settings = tuple(known[name] for name in wanted)
    return dataclasses.replace(with_rows(plan, arguments.methods), settings=settings)


def with_rows(plan: Plan, listed: str | None) -> Plan:
    """The plan with the rows that `--methods` lists, among them methods of the user's own."""
    codes = own_methods(listed)
    rows = names("--methods", listed, (*plan.rows, *codes))
    return dataclasses.replace(
        plan,
        methods=tuple(method for method in (*plan.methods, *codes) if method in rows),
        variants=tuple(variant for variant in plan.variants if variant.name in rows),
        codes=codes,
    )


def own_methods(text: str | None) -> dict[str, str]:
    """What `--methods` lists as FILE.py:CLASS, each with the checksum of its code."""
    words = [word.strip() for word in (text or "").split(",")]
    return {word: code_of(word) for word in words if ".py" in word}


def code_of(name: str) -> str:
    """The checksum of the code that a method consists of; an error if there is no such method."""
    methods.entry(name)  # a file without a class is told so
    methods.class_in_file(name)
    module = usercode.imported(Path(name.rpartition(":")[0]).resolve())
    joined = b"\0".join(sorted(set(sources(module))))
    return hashlib.sha256(joined).hexdigest()[:DIGITS]


def sources(module: ModuleType) -> Iterator[bytes]:
    """The content of the user's files that a module is made of: its own, and those it imports."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        module = waiting.pop()
        file = getattr(module, "__file__", None) or ""
        if file in seen or not (file.endswith(".py") and usercode.is_user_code(file)):
            continue
        seen.add(file)
        content = Path(file).read_bytes()
        yield content
        waiting += [sys.modules[n] for n in imports(content, module) if n in sys.modules]


def imports(content: bytes, module: ModuleType) -> Iterator[str]:
    """The modules that a file may import, by name."""
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):  # of a name that is relative, but to no package
                base = resolve_name("." * node.level + (node.module or ""), module.__package__)
                yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
