"""Table 2: the Friedman rank and the mean error of each method over all settings."""

import csv
import math
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from statistics import mean

from ..errors import UsageError, one_line
from ..methods import METHODS
from .cells import SEEDS, Cell, Plan
from .order import TAU_RULE, Agreement, Errors, Standing, agreements, printed_means, standings
from .plans import PLANS, one_name, scale_of, with_rows
from .published import TABLE_1, TABLE_2
from .results import Result, Store
from .tables import FORMATS, SCORES, Grid, Page, about, other_lengths, refuse_two_starts, titled

BySeed = Mapping[str, Mapping[str, Mapping[int, float]]]  # and by seed

UNRANKED = ("supervised", "fully_supervised")  # for reference only, as in the paper
KINDS = ("Friedman rank", "mean error")  # what Table 2 has
RULE = (
    "In each setting the methods are ranked from the lowest error, 1; equal errors share the mean "
    "of their ranks. Where a method has no value (N/A), the others are ranked without it, and its "
    "own rank and mean are over the settings it has. Our own results are ranked in the settings "
    "where every ranked method has some, by the seeds that all of them have there."
)


def printed_errors() -> Errors:
    """The printed Table 1, without the rows for reference and without what has no number."""
    return printed_means(PLANS["usb"], TABLE_1.keys() - UNRANKED)


def disagreements(found: Mapping[str, Standing]) -> list[str]:
    """The values of the printed Table 2 that the printed Table 1 does not yield."""
    lines = []
    for method, printed in TABLE_2.items():
        for what, own, theirs in zip(KINDS, found[method][:2], printed, strict=True):
            if abs(own - theirs) > 0.005 + 1e-9:  # more than rounding
                told = f"Table 1 yields {own:.2f}, Table 2 prints {theirs:.2f}."
                lines.append(f"{METHODS[method].title}'s {what}: {told}")
    return lines


def grid(
    title: str, found: Mapping[str, Standing], titles: Mapping[str, str], *, beside: bool = True
) -> Grid:
    """The table of standings; with `beside`, next to the paper's, of the same settings."""
    header = ("method", "rank", "paper's rank", "mean error", "paper's mean", "settings")
    rows = []
    for method, own in found.items():
        printed = TABLE_2.get(method, ()) if beside else ()
        rank_there, error_there = (f"{v:.2f}" for v in printed) if printed else ("", "")
        ranks, errors = (f"{own.rank:.2f}", rank_there), (f"{own.error:.2f}", error_there)
        rows.append((titles[method], *ranks, *errors, str(own.settings)))
    return Grid(title, header, rows)


def order_grid(found: Mapping[str, Agreement]) -> Grid:
    """How far our order agrees with the printed one."""
    header = ("methods ordered by", "methods", "Kendall's τ", "95 % interval")
    rows = [
        (title, str(own.methods), f"{own.tau:.2f}", f"{own.low:.2f} to {own.high:.2f}")
        for title, own in found.items()
    ]
    return Grid("Our order and the printed one", header, rows)


def by_seed(plan: Plan, results: Mapping[Cell, Result], score: str) -> BySeed:
    """Our errors of the methods that are ranked."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for cell, result in results.items():
        error: float | None = getattr(result, score)
        if error is not None and cell.method in plan.methods and cell.method not in UNRANKED:
            of_method = found.setdefault(cell.method, {})
            of_method.setdefault(cell.setting.name, {})[cell.seed] = error
    return found


def shared_seeds(errors: BySeed, setting: str) -> list[int]:
    """The seeds that all methods with results in a setting have: other seeds have other labels."""
    seeds = [set(row[setting]) for row in errors.values() if setting in row]
    return sorted(set.intersection(*seeds)) if seeds else []


def ranked_errors(plan: Plan, errors: BySeed) -> tuple[Errors, list[str]]:
    """The mean errors in the settings that yield ranks, and notes on what is left out.

    They are over the seeds that all methods have there; none of those with results may lack them.
    """
    without = [m for m in plan.methods if m not in errors and m not in UNRANKED]
    told = ", ".join(plan.rows[method] for method in without)
    notes = [f"Not ranked, for lack of results: {told}."] if without else []
    found: dict[str, dict[str, float]] = {method: {} for method in errors}
    fewer = []
    for setting in plan.settings:
        shared = shared_seeds(errors, setting.name)
        here = {m: row[setting.name] for m, row in errors.items() if shared and setting.name in row}
        lacking = [m for m in errors if m not in here and (setting.data, m) not in plan.absent]
        if lacking:
            why = f"no result of {', '.join(plan.rows[method] for method in lacking)}"
            if len(lacking) == len(errors):
                why = "there is no seed that all methods have"
            notes.append(f"{setting.title} is left out: {why}.")
            continue
        for method, runs in here.items():
            found[method][setting.name] = mean(runs[seed] for seed in shared)
        if any(len(runs) > len(shared) for runs in here.values()):
            seeds = ", ".join(map(str, shared))
            fewer.append(f"{setting.title} is ranked by the seeds that all methods have: {seeds}.")
    return found, [*notes, *fewer]


def read_errors(path: Path) -> dict[str, dict[str, float]]:
    """A table of the user's own: a method a line, its error in each setting a column."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head, *lines = [*csv.reader(file)] or [[]]
    except (OSError, ValueError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else one_line(error)
        raise UsageError(f"--table {path} cannot be read: {why}.") from None
    found: dict[str, dict[str, float]] = {}
    for number, line in enumerate(lines, 2):
        if not line:
            continue
        where = f"--table {path}, line {number}"
        if line[0] in found:
            raise UsageError(f"{where}: there is a line of {line[0]} already.")
        if len(line) != len(head):
            raise UsageError(
                f"{where}: the number of cells is {len(line)}, that of the first line {len(head)}: "
                "a method, and each setting."
            )
        cells = zip(head[1:], line[1:], strict=True)
        found[line[0]] = {s: error_in(where, s, cell) for s, cell in cells if cell.strip()}
    if not any(found.values()):
        raise UsageError(f"--table {path} has no errors.")
    return found


def error_in(where: str, setting: str, cell: str) -> float:
    """The error of a cell that is not empty."""
    with suppress(ValueError):
        if math.isfinite(error := float(cell)):
            return error
    raise UsageError(f"{where}: {cell!r} under {setting} is not a number.")


def own_page(path: Path) -> Page:
    """The ranks of a table of the user's own."""
    errors = read_errors(path)
    header = ("method", "rank", "mean error", "settings")
    rows = [
        (method, f"{own.rank:.2f}", f"{own.error:.2f}", str(own.settings))
        for method, own in standings(errors).items()
    ]
    holes = [method for method, row in errors.items() if len(row) < max(map(len, errors.values()))]
    notes = [f"Without a value in some setting: {', '.join(holes)}."] if holes else []
    rule = RULE.partition(" Our own")[0]
    return Page("Friedman rank and mean error (%)", [Grid(path.name, header, rows)], [*notes, rule])


def page(arguments: Namespace) -> Page:
    printed = standings(printed_errors())
    notes = disagreements(printed) or ["The printed Table 1 yields all of Table 2."]
    grids = [grid("From the printed Table 1", printed, PLANS["usb"].rows)]
    plan, store = with_rows(PLANS[arguments.of], arguments.methods), Store(arguments.results)
    scale = scale_of(plan, arguments.scale, arguments.steps)
    cells = plan.cells(arguments.of, SEEDS, scale)
    results = store.results(cells)
    refuse_two_starts(results, store)
    count = f"{len(results)} of {len(cells)} cells done"
    if errors := by_seed(plan, results, arguments.score):
        ranked, missing = ranked_errors(plan, errors)
        title = f"From our results of `bench {arguments.of}`, {SCORES[arguments.score]}"
        same = arguments.of == "usb" and plan.methods == PLANS["usb"].methods
        beside = same and not missing  # else it is another comparison
        if found := standings(ranked):
            grids.append(grid(f"{titled(title, scale)}: {count}", found, plan.rows, beside=beside))
        if agree := agreements(plan, ranked):
            grids.append(order_grid(agree))
            notes.append(TAU_RULE)
        notes += [*missing, *about(plan, cells, results)]
    else:
        notes.append(f"No results of our own yet in {arguments.results} ({count}).")
        notes += other_lengths(cells, store)
    return Page("Table 2: Friedman rank and mean error (%)", grids, [*notes, RULE])


def one_table(text: str) -> str:
    """`--of BENCH`: a bench with a table of methods."""
    whole = {name: plan for name, plan in PLANS.items() if name != "race"}  # whose runs end early
    tables = tuple(name for name, plan in whole.items() if plan.settings and not plan.variants)
    return one_name("--of", text, tables)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--of", default="usb", metavar="BENCH", type=one_table,
        help="whose results to rank (default: usb)",
    )  # fmt: skip
    parser.add_argument(
        "--methods", metavar="A,B",
        help="methods to rank: names, all, or FILE.py:CLASS (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--score", choices=SCORES, default="error_best", help="error to rank by (default: best)"
    )
    parser.add_argument(
        "--table", type=Path, metavar="FILE.csv",
        help="rank a table of your own: a method a line, a setting a column",
    )  # fmt: skip
    parser.add_argument("--scale", help="rank shortened runs, e.g. 1/8")
    parser.add_argument("--steps", type=int, help="rank runs of this many steps")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of results")
    parser.add_argument("--format", choices=FORMATS, default="text", help="format of the table")


def run(arguments: Namespace) -> int:
    shown = page(arguments) if arguments.table is None else own_page(arguments.table)
    sys.stdout.write(FORMATS[arguments.format](shown))
    return 0
