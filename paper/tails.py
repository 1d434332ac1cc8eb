"""The tables of the page of TaMatch-LT, from results: on the seeds that the main methods share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from statistics import mean

from tamatch.bench.cells import FULL, Cell, Setting
from tamatch.bench.plans import PLANS
from tamatch.bench.results import Result, Store
from tamatch.bench.tables import SCORES, length
from tamatch.methods import METHODS
from tamatch.storage.files import write_bytes

from .evidence import short
from .verdicts import EIGHTH, text_table

PAGE = "long-tails.md"
BEGIN, END = "<!-- written by `python -m paper report` -->", "<!-- end -->"
BENCH, OWN = "tails", "tamatch_lt"
METHODS_SHOWN = ("fixmatch", "freematch", "tamatch", OWN)
SEEDS = range(6)  # a run of another seed than the usual three counts, too


def renew(path: Path, store: Store) -> None:
    """Write the tables of a page anew, if it is there."""
    if path.exists():
        write_bytes(path, with_tables(path.read_text(encoding="utf-8"), store).encode())
        print(f"Tables: {path}", file=sys.stderr)


def with_tables(text: str, store: Store) -> str:
    """The page with what stands between its marks written from results."""
    before, _, rest = text.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{PAGE} lacks {BEGIN!r} … {END!r}")
    return f"{before}{BEGIN}\n\n{tables(store)}\n\n{END}{after}"


def tables(store: Store) -> str:
    """A table for each length, and which settings have no run of TaMatch-LT."""
    return "\n\n".join(part for scale in (EIGHTH, FULL) for part in of_length(store, scale))


def of_length(store: Store, scale: Fraction) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    lacking = []
    for setting in PLANS[BENCH].settings:
        if found := shared(store, setting, scale):
            rows += scored(setting, found)
        else:
            lacking.append(short(setting))
    if rows:
        names = (METHODS[method].title for method in METHODS_SHOWN)
        header = ("", "error (%)", *names, "TaMatch-LT − TaMatch", "− FixMatch", "seeds")
        yield f"{length(scale).capitalize()}:"
        yield "\n".join(text_table([header, *rows]))
    if lacking:
        yield f"Not measured, {length(scale)}: {'; '.join(lacking)}."


def shared(store: Store, setting: Setting, scale: Fraction) -> dict[str, dict[int, Result]]:
    """The results of the methods that have any, by seed: those seeds that all of them have."""
    found = {
        method: {cell.seed: result for cell, result in store.results(cells).items()}
        for method in METHODS_SHOWN
        if (cells := [Cell(BENCH, setting, method, seed, scale) for seed in SEEDS])
    }
    there = {method: runs for method, runs in found.items() if runs}
    common = set.intersection(*(set(runs) for runs in there.values())) if OWN in there else set()
    return {m: {s: runs[s] for s in sorted(common)} for m, runs in there.items()} if common else {}


def scored(setting: Setting, found: dict[str, dict[int, Result]]) -> Iterator[tuple[str, ...]]:
    """A row for each score."""
    seeds = ", ".join(map(str, found[OWN]))
    for field, name in SCORES.items():
        scores = {
            method: mean(values)
            for method, runs in found.items()
            if None not in (values := [getattr(result, field) for result in runs.values()])
        }
        known = OWN in scores
        yield (
            short(setting),
            name,
            *(f"{scores[m]:.2f}" if m in scores else "–" for m in METHODS_SHOWN),
            *(
                f"{scores[OWN] - scores[m]:+.2f}" if known and m in scores else "–"
                for m in ("tamatch", "fixmatch")
            ),
            seeds,
        )
