"""Which cells of a bench the user wants: `--methods --seeds --settings --cell --scale --steps`."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Collection
from fractions import Fraction

from ..errors import UsageError, perhaps
from .cells import Cell, Plan
from .own_method import own_methods
from .plans import PLANS
from .scale import FULL, checked, full_steps, parse_scale

ALL = "all"


def near_miss(what: str, name: str, known: Collection[str]) -> UsageError:
    """The error for an unknown name, with what it may have been meant to be."""
    hint = perhaps(name, known) or f" Available: {', '.join(known)}."
    return UsageError(f"{what} {name} is unknown.{hint}")


def names(flag: str, text: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """The known names that the user listed, in their own order; `all` or no list means all."""
    wanted = [word.strip() for word in (ALL if text is None else text).split(",")]
    for word in wanted:
        if word not in (*known, ALL):
            raise near_miss(flag, word, known)
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
    """The bench's plan with the rows and columns that were asked for.

    A figure is drawn of one data set: the paper's, unless `--data` names another.
    """
    plan = PLANS[arguments.bench]
    if plan.figure:
        known = {setting.data: setting for setting in plan.settings}
        wanted = [one_name("--data", arguments.data or plan.settings[0].data, tuple(known))]
    else:
        known = {setting.name: setting for setting in plan.settings}
        wanted = [*names("--settings", arguments.settings, tuple(known))]
    settings = tuple(known[name] for name in wanted)
    return dataclasses.replace(with_rows(plan, arguments.methods), settings=settings)


def with_rows(plan: Plan, listed: str | None) -> Plan:
    """The plan with the rows that `--methods` lists, among them methods of the user's own.

    A figure is drawn of the paper's methods alone.
    """
    codes = {} if plan.figure else own_methods(listed)
    rows = names("--methods", listed, (*plan.rows, *codes))
    return dataclasses.replace(
        plan,
        methods=tuple(method for method in (*plan.methods, *codes) if method in rows),
        variants=tuple(variant for variant in plan.variants if variant.name in rows),
        codes=codes,
    )
