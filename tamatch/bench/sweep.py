"""The benches that train: list their runs, make the missing ones, show the table."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..methods import CUSTOM
from ..settings.options import read_seeds
from .cells import MACHINE, Cell, Plan, explain
from .plans import OWN, PLANS, option_values, scale_of, selected_plan, share, with_options
from .results import Store, start
from .tables import FORMATS, Page, fuller_lengths, table

if TYPE_CHECKING:
    from .runner import Runner

SMOKE_STEPS = 4
SMOKE = {  # what takes long on a CPU: a large net and batch, and tests
    "net": ["wrn_10_1_clean"], "batch": ["8"], "unlabelled": ["8"], "test_every": ["4"],
    "test_images": ["200"],
}  # fmt: skip
SMOKE_PRETRAINED = {"net": ["vit_64x1_p8_32"], "size": ["32"]}  # of the same kind as the real one


def add_arguments(parser: ArgumentParser) -> None:
    plan = PLANS[parser.get_default("bench")]
    what = parser.add_argument_group("which runs")
    rows = ", ".join(plan.rows)
    what.add_argument("--methods", metavar="A,B", help=f"some of {rows}, all, or FILE.py:CLASS")
    names = ", ".join(setting.name for setting in plan.settings)
    if parser.get_default("bench") == OWN:
        what.add_argument("--data", metavar="DIR", required=True, help="folder of your images")
    else:
        what.add_argument("--settings", metavar="A,B", help=f"some of {names}")
    what.add_argument("--seeds", metavar="0,1", default="0,1,2", help="seeds (default: 0,1,2)")
    what.add_argument("--scale", help="shorten the runs, e.g. to 1/8; schedules shrink with them")
    what.add_argument("--steps", type=int, help="shorten the runs to this many steps")
    what.add_argument(
        "--set", metavar="NAME=V1,V2", action="append", default=[],
        help="any option of `train` or of the methods; several values make a row each",
    )  # fmt: skip
    what.add_argument(
        "--smoke", action="store_true",
        help="try every run briefly on a CPU: one seed, 4 small steps, a small net, one test",
    )  # fmt: skip
    what.add_argument("--cell", metavar="K/N", help="job K of an array of N jobs")
    parser.epilog = "Options of `train` and of the methods work here, too: --tau 0.9."
    how = parser.add_argument_group("how")
    only = how.add_mutually_exclusive_group()
    only.add_argument("--list", action="store_true", help="print the runs without training")
    only.add_argument("--show", action="store_true", help="show the results without training")
    how.add_argument("--minutes", type=float, help="stop after this time; run again to continue")
    how.add_argument(
        "--abreast", type=int, metavar="N", default=1,
        help="runs in parallel in one process; worthwhile on a GPU (default: 1)",
    )  # fmt: skip
    how.add_argument("--root", help="folder that contains the data set")
    if plan.pretrained:
        how.add_argument("--weights", help="file of pre-trained weights to start from")
    how.add_argument("--device", help="auto, cpu, cuda or cuda:N")
    how.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of results (default: results)"
    )
    how.add_argument(
        "--runs", type=Path, default=Path("runs/bench"), help="folder of runs (default: runs/bench)"
    )
    how.add_argument("--keep-runs", action="store_true", help="keep the folders of finished runs")
    how.add_argument("--format", choices=FORMATS, default="text", help="format of the table")


class Sweep:
    """What a bench that trains may do otherwise: other cells, another way to make and show them."""

    def plan(self, plan: Plan) -> Plan:
        return plan

    def runner(self, *given: Any, **named: Any) -> Runner:
        from .runner import Runner  # with torch

        return Runner(*given, **named)

    def page(self, plan: Plan, cells: Sequence[Cell], store: Store) -> Page:
        page = table(plan, cells, store)
        page.notes.extend(fuller_lengths(cells, store))
        return page


def run(arguments: Namespace, sweep: Sweep | None = None) -> int:
    sweep = sweep or Sweep()
    values = option_values(arguments.extra, arguments.set)
    if arguments.smoke:
        arguments.steps, arguments.scale, arguments.seeds = SMOKE_STEPS, None, "0"
        kind = SMOKE_PRETRAINED if PLANS[arguments.bench].pretrained else {}
        values = {**SMOKE, **kind, **values}
    plan = sweep.plan(with_options(selected_plan(arguments), values))
    scale = scale_of(plan, arguments.scale, arguments.steps)
    cells = plan.cells(arguments.bench, read_seeds(arguments.seeds), scale)
    mine = share(arguments.cell, cells)
    store = Store(arguments.results)
    given = {name: getattr(arguments, name, None) for name in MACHINE}
    machine = {name: value for name, value in given.items() if value is not None}
    makes_runs = not arguments.show and not all(store.has(cell) for cell in mine)
    if makes_runs or "weights" in machine:
        refuse_other_start(cells, store, machine.get("weights"))
    if arguments.list:
        print("\n".join(listing(mine, store, machine)))
        return 0
    if not arguments.show:
        if arguments.abreast < 1:
            raise UsageError(f"--abreast must be at least 1, got {arguments.abreast}.")
        if arguments.minutes is not None and not arguments.minutes > 0:  # nan neither
            raise UsageError(f"--minutes must be above 0, got {arguments.minutes:g}.")
    with CUSTOM.held(plan.codes):  # an edit meanwhile would give one name to results of two methods
        status = 0
        if makes_runs:
            print("\n".join(explain(mine)), file=sys.stderr)
            keep, abreast = arguments.keep_runs, arguments.abreast
            runner = sweep.runner(store, arguments.runs, machine, keep=keep, abreast=abreast)
            status = runner.fill(mine, arguments.minutes)
    sys.stdout.write(FORMATS[arguments.format](sweep.page(plan, cells, store)))
    return status


def refuse_other_start(cells: Sequence[Cell], store: Store, weights: str | None) -> None:
    """A run's name does not say what it started from, so a result may be that of another start."""
    asked = start(weights)
    for cell, result in store.results(cells).items():
        there = start(result.config.get("weights"))
        if there != asked:
            raise UsageError(
                f"{store.path(cell)} started from {there}, but this command starts from {asked}. "
                "Use different --results and --runs, or the weights of the existing results."
            )


def listing(cells: Sequence[Cell], store: Store, machine: Mapping[str, Any]) -> list[str]:
    """One line per run, done or missing, and what the scale changes in these runs."""
    lines = [
        f"{number:4}  {'done   ' if store.has(cell) else 'missing'}  {cell.command(machine)}"
        for number, cell in enumerate(cells, 1)
    ]
    done = sum(store.has(cell) for cell in cells)
    return [*lines, f"{len(cells)} runs, {done} of them done.", *explain(cells)]
