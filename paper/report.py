"""`python -m paper report`: the page of results, written from the results folder alone.

In the page of TaMatch-LT, which is next to it, the tables are written anew.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from tamatch.bench.cells import FULL, RECIPE, Cell
from tamatch.bench.plans import LONG_TAIL, PLANS
from tamatch.bench.race import Race
from tamatch.bench.results import Result, Store
from tamatch.bench.tables import FORMATS, UNEQUAL, Grid, Page, length, short, table
from tamatch.errors import UsageError
from tamatch.storage.files import write_bytes

from . import figures, race, tails, toy
from .eighths import in_eighths
from .opening import opening
from .verdicts import EIGHTH, claims, stand_in

LENGTHS = (FULL, *(Fraction(1, 2**k) for k in range(1, 8)))  # the longest that is in is shown
TABLES = {
    "lt": (EIGHTH, FULL), "ablation-lt": (EIGHTH, FULL), "causes": (EIGHTH,),
    "usb": (FULL,), "ablation-usb": (FULL,),
}  # fmt: skip
STAND_IN, LONG = "stand-in", ("lt", "ablation-lt")
LONG_TAIL_DATA, STAND_IN_DATA = "cifar10-lt", "eurosat-tuned"
HEAD = """# Results

{opening}
`python -m paper report` writes this page from the files in `results/`, and a test compares the two.
[Reproducing the paper](benchmark.md) explains how to make the runs and how to read the tables.

No table mixes two lengths or two versions of the recipe. Missing runs are shown as missing. The
paper's printed errors are those of full-length runs; next to shorter runs they only show a
direction.
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("results"), help="default: results")
    parser.add_argument("--out", type=Path, default=Path("docs/reproduction.md"), help="the page")
    parser.add_argument("--figures", action="store_true", help="also redraw the figures")


def run(arguments: Namespace) -> int:
    if not arguments.results.is_dir():
        raise UsageError(
            f"--results {arguments.results} is not a folder. The page was not changed."
        )
    store = Store(arguments.results)
    folder = arguments.out.parent / "figures"
    if arguments.figures:
        figures.require()
        draw(store, folder)
    links = Path(os.path.relpath(arguments.results, arguments.out.parent)).as_posix()
    write_bytes(arguments.out, page(store, folder, links).encode())
    print(f"Page: {arguments.out}", file=sys.stderr)
    tails.renew(arguments.out.with_name(tails.PAGE), store)
    return 0


def page(store: Store, folder: Path, links: str = "../results") -> str:
    """The whole page; `folder` is where its figures are, `links` where its links find results."""
    shown: set[str] = set()
    parts = [
        HEAD.format(opening=opening(store, EIGHTH, stand_in_scale(store))),
        claims(store),
        *(section(bench, scale, store, shown) for bench, scale in sections(store)),
        race.page(store),
        *([f"{shown_picture(race.FILE, folder)}\n"] if race.begun(Race(), store)[1] else []),
        *full_runs(store, folder),
        *pictures(store, folder),
        sources(store, links),
    ]
    return "\n".join(parts)


def sections(store: Store) -> list[tuple[str, Fraction]]:
    """The tables of the page, and of which length their runs are."""
    fixed = [(b, scale) for scale in (EIGHTH, FULL) for b, have in TABLES.items() if scale in have]
    scale = stand_in_scale(store)
    return [*fixed, (STAND_IN, scale), (f"ablation-{STAND_IN}", scale)]


def stand_in_scale(store: Store) -> Fraction:
    """The longest length that the stand-in has runs of."""
    plan = PLANS[STAND_IN]
    there = (scale for scale in LENGTHS if store.results(plan.cells(STAND_IN, scale=scale)))
    return next(there, FULL)


def section(bench: str, scale: Fraction, store: Store, shown: set[str]) -> str:
    """One table; a note that was `shown` before is not repeated."""
    plan = PLANS[bench]
    cells = plan.cells(bench, scale=scale)
    if not store.results(cells):
        return f"## {plan.title}, {length(scale)}\n\nNone of its {len(cells)} runs is done yet.\n"
    whole = table(plan, cells, store)
    notes = [note for note in whole.notes if note not in shown]
    shown |= {note for note in notes if note != UNEQUAL and not note.startswith("Made by")}
    begun = {cell.setting for cell in store.results(cells)}
    grids = [g for g, s in zip(whole.grids, plan.settings, strict=True) if s in begun]
    empty = [setting.title for setting in plan.settings if setting not in begun]
    lacking = [f"No run is done yet of {'; '.join(empty)}."] if empty else []
    title = f"{plan.title}, {length(scale)}"
    text = FORMATS["markdown"](replace(whole, title=title, grids=grids, notes=[*lacking, *notes]))
    return f"{text}\n{stand_in(store, scale)}" if bench == STAND_IN else text


def long_runs(store: Store) -> dict[Cell, Result]:
    """The runs of full length that are in."""
    cells = {cell.name: cell for bench in LONG for cell in PLANS[bench].cells(bench, scale=FULL)}
    return store.results(cells.values())


def full_runs(store: Store, folder: Path) -> Iterable[str]:
    """How the error moved in the runs of full length."""
    if found := long_runs(store):
        yield FORMATS["markdown"](in_eighths("Over the course of the full-length runs", found))
        names = [f"full-{name}" for name in dict.fromkeys(cell.setting.name for cell in found)]
        yield from (f"{shown_picture(name, folder)}\n" for name in names)


def pictures(store: Store, folder: Path) -> Iterable[str]:
    """The figures that have been drawn, and what they are of."""
    yield "## Figures\n"
    shown = {
        "toy": "Figure 1: how often a distribution that learns from its own samples becomes more "
        "biased (`python -m paper toy`), by both readings of the paper's words.\n\n"
        f"{toy_claims(store)}",
        f"bias-{LONG_TAIL[2].name}": "Figure 3 on long-tailed CIFAR-10 (`python -m paper bias "
        f"--data cifar10-lt --scale 1/8`): {count(store, 'bias')}. The paper shows STL-10, whose "
        "pre-trained weights are not included.",
        f"clipping-{LONG_TAIL[3].name}": "Figure 4 (`python -m paper clipping --scale 1/8`): "
        f"{count(store, 'clipping')}.",
    }
    bias = figures.FIGURES["bias"].cells(STAND_IN_DATA, stand_in_scale(store))
    if found := store.results(bias):
        name = f"bias-{bias[0].setting.name}"
        shown[name] = (
            "Figure 3 with a pre-trained ViT-Tiny on EuroSAT (`python -m paper bias --data "
            f"{STAND_IN_DATA}`): {len(found)} of {len(bias)} runs are done."
        )
    for name, text in shown.items():
        yield f"{shown_picture(name, folder)}\n\n{text}\n"


def shown_picture(name: str, folder: Path) -> str:
    there = (folder / f"{name}.png").exists()
    return f"![{name}](figures/{name}.png)" if there else "Not drawn yet."


def toy_claims(store: Store) -> str:
    """What the stored simulation says about the paper's two claims."""
    path = store.folder / toy.FILE
    if not path.exists():
        return "Not simulated yet."
    lines = json.loads(path.read_text(encoding="utf-8"))["claims"]
    return "\n".join(f"- {line.strip()}" for line in lines)


def count(store: Store, name: str) -> str:
    cells = figures.FIGURES[name].cells(LONG_TAIL_DATA, EIGHTH)
    return f"{len(store.results(cells))} of {len(cells)} runs are done"


def draw(store: Store, folder: Path) -> None:
    drawn = [(name, LONG_TAIL_DATA, EIGHTH) for name in figures.FIGURES]
    for name, data, scale in [*drawn, ("bias", STAND_IN_DATA, stand_in_scale(store))]:
        figure = figures.FIGURES[name]
        cells = figure.cells(data, scale)
        if found := list(store.results(cells).values()):
            figures.save(figure.draw, found, folder, f"{name}-{cells[0].setting.name}")
    if timed := list(race.begun(Race(), store)[1].values()):
        figures.save(race.picture(Race()), timed, folder, race.FILE)
    by_setting: dict[str, list[Result]] = {}
    for cell, result in long_runs(store).items():
        by_setting.setdefault(cell.setting.name, []).append(result)
    for name, results in by_setting.items():
        figures.save(figures.full_length, results, folder, f"full-{name}")
        if by_class := [result for result in results if result.per_class is not None]:
            figures.save(figures.classes, by_class, folder, f"classes-full-{name}")


def sources(store: Store, links: str) -> str:
    """Every run behind the page: its file, which has the configuration, and its code."""
    cells = {
        cell.name: cell
        for bench, scale in sections(store)
        for cell in PLANS[bench].cells(bench, scale=scale)
    }
    found = store.results(cells.values()) | race.begun(Race(), store)[1]
    rows = [source(cell, result, links) for cell, result in found.items()]
    header = ("file", "last", "median", "best", "finished", "commit", "source", "machine")
    notes = [
        f"Each file holds the scores, the curves, the whole configuration and the versions; recipe "
        f"{RECIPE}. `source` is the beginning of the SHA-256 of the package's Python files."
    ]
    grid = Grid(f"{len(rows)} runs", header, rows)
    return FORMATS["markdown"](Page("Where the numbers come from", [grid], notes))


def source(cell: Cell, result: Result, links: str) -> tuple[str, ...]:
    scores = (result.error_last, result.error_median20, result.error_best)
    made = result.made
    return (
        f"[{cell.name}]({links}/{cell.name}.json)",
        *("–" if score is None else f"{score:.2f}" for score in scores),
        made["finished"][:10],
        short(made["commit"]),
        made["source_sha256"][:12],
        made["gpu"] or made["device"],
    )
