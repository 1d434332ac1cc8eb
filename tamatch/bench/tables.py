"""A bench's table, our errors beside the paper's, as text, Markdown, LaTeX or HTML."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from statistics import mean, stdev

from ..errors import DataError
from ..report.words import environment
from .cells import FULL, RECIPE, Cell, Plan, Setting, explain
from .results import Result, Store, start

Row = tuple[str, ...]

MISSING = "missing"
LAST = 20  # tests in the median
SCORES = {
    "error_last": "last",
    "error_median20": "median of last 20",
    "error_best": "best (oracle)",
}
RULE = (
    "Mean ± standard deviation (ddof = 1) over n seeds. `best` is selected on the test set, so it "
    "is not achievable in practice."
)

UNEQUAL = (
    "Some rows of one table are means over different seeds, which have different labels. Their "
    "difference is partly one of the draws."
)


@dataclass(frozen=True)
class Grid:
    """A table; its first column names the rows."""

    title: str
    header: Row
    rows: Sequence[Row]


@dataclass(frozen=True)
class Page:
    """Tables under one title, with notes below."""

    title: str
    grids: list[Grid]
    notes: list[str]


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Mean ± standard deviation; the deviation of a single value is unknown."""
    if not values:
        return MISSING
    if len(values) == 1:
        return f"{values[0]:{form}}"
    return f"{mean(values):{form}} ± {stdev(values):.2f}"


def table(plan: Plan, cells: Sequence[Cell], store: Store) -> Page:
    """The page for the cells of a plan, which share one scale and one recipe version."""
    results = store.results(cells)
    refuse_two_starts(results, store)
    notes = [
        f"{len(results)} of {len(cells)} cells done; recipe {RECIPE}. {RULE}",
        *unequal_seeds(results),
        *plan.notes,
        *about(plan, cells, results),
        *([] if results else other_lengths(cells, store)),
        *other_code(cells, store),
    ]
    if not store.folder.is_dir():  # it may have been looked for in the wrong place
        notes.append(
            f"There is no folder {store.folder} here; --results names the folder of results."
        )
    others = {replace(c, method=plan.against, variant=None, code="") for c in cells if plan.against}
    compared = store.results(others) | results
    grids = [grid(plan, setting, cells, results, compared) for setting in plan.settings]
    return Page(plan.title, grids, notes)


def about(plan: Plan, cells: Sequence[Cell], results: Mapping[Cell, Result]) -> list[str]:
    """What runs these are: their length, tests and start, and which code and machines made them."""
    notes = [] if common_scale(cells) == FULL else explain(cells)
    found = results.values()
    if not found:
        return notes
    if (least := min(len(result.error.step) for result in found)) < LAST:
        notes.append(
            f"Tests in a run: {least}; the median is over all of them, including early ones."
        )
    if plan.pretrained:
        counts = Counter(start(result.config.get("weights")) for result in found)
        told = ", ".join(f"{name} ({count} runs)" for name, count in sorted(counts.items()))
        notes.append(f"Started from: {told}.")
    return [*notes, *makers(found)]


def makers(results: Collection[Result]) -> list[str]:
    """Which code and machines made the results, if there are any."""
    code = sorted({short(r.made["commit"]) for r in results})
    machines = sorted({r.made["gpu"] or r.made["device"] for r in results})
    return [f"Made by {', '.join(code)} on {', '.join(machines)}."] if results else []


def common_scale(cells: Sequence[Cell]) -> Fraction:
    return cells[0].scale if cells else FULL


def length(scale: Fraction) -> str:
    return "runs of full length" if scale == FULL else f"runs of {scale} of the full length"


def titled(title: str, scale: Fraction) -> str:
    """A table's title, which may be copied without the notes: it says if runs are shortened."""
    return title if scale == FULL else f"{title}, {length(scale)}"


def grid(
    plan: Plan,
    setting: Setting,
    cells: Sequence[Cell],
    results: Mapping[Cell, Result],
    compared: Mapping[Cell, Result],
) -> Grid:
    """The table of one setting; `compared` also has results that are not shown, for differences."""
    scale = common_scale(cells)
    paper = ("paper" if scale == FULL else "paper (full length)",) if plan.printed else ()
    moves = {"error_last": "Δ last", "error_best": "Δ best"} if plan.against else {}
    here = {(c.row, c.seed): result for c, result in compared.items() if c.setting == setting}
    rows: list[Row] = []
    for name, title in plan.rows.items():
        own = [cell for cell in cells if (cell.setting, cell.row) == (setting, name)]
        done = [results[c] for c in own if c in results]
        scored = [[v for r in done if (v := getattr(r, s)) is not None] for s in SCORES]
        ours = map(spread, scored) if own else ["–"] * len(SCORES)
        count = f"{len(scored[0])}/{len(own)}" if own else "–"
        printed = (plan.printed or {}).get(name, {}).get(setting.name)
        theirs = (printed.text if printed else "",) * len(paper)
        moved = (difference(name, plan.against, here, score) for score in moves)
        rows.append((title, *ours, *moved, *theirs, count))
    header = ("method", *SCORES.values(), *moves.values(), *paper, "n")
    return Grid(titled(setting.title, scale), header, rows)


def difference(row: str, other: str, results: Mapping[tuple[str, int], Result], score: str) -> str:
    """The mean difference of two rows by one score, over the seeds that both have."""
    pairs = [
        (getattr(result, score), getattr(results[other, seed], score))
        for (name, seed), result in results.items()
        if name == row and (other, seed) in results
    ]
    known = [mine - theirs for mine, theirs in pairs if None not in (mine, theirs)]
    return "" if row == other or not known else f"{mean(known):+.2f}"


def unequal_seeds(results: Iterable[Cell]) -> list[str]:
    """A warning where rows of one setting are not of the same draws."""
    seeds: dict[Setting, dict[str, set[int]]] = {}
    for cell in results:
        seeds.setdefault(cell.setting, {}).setdefault(cell.row, set()).add(cell.seed)
    if all(len({*map(frozenset, rows.values())}) == 1 for rows in seeds.values()):
        return []
    return [UNEQUAL]


def refuse_two_starts(results: Mapping[Cell, Result], store: Store) -> None:
    """Errors from different weights have no common mean."""
    first: dict[Setting, Cell] = {}
    for cell, result in results.items():
        other = first.setdefault(cell.setting, cell)
        one, two = (start(r.config.get("weights")) for r in (results[other], result))
        if one != two:
            raise DataError(
                f"{store.path(other)} started from {one}, {store.path(cell)} from {two}: a table "
                "cannot mix them. Keep the results of different weights in separate folders "
                "(--results)."
            )


def other_lengths(cells: Sequence[Cell], store: Store) -> list[str]:
    """Where results are, if there are none of the length that was asked for."""
    told = [f"{asked_by(s)} has {count}" for s, count in store.other_scales(cells).items()]
    return [f"No run of this length is in {store.folder}; {', '.join(told)}."] if told else []


def fuller_lengths(cells: Sequence[Cell], store: Store) -> list[str]:
    """Where more results are than the few of the length that was asked for."""
    done = len(store.results(cells))
    fuller = {s: count for s, count in store.other_scales(cells).items() if 0 < done < count}
    told = [f"{asked_by(s)} has {count} of {len(cells)}" for s, count in fuller.items()]
    return [f"There are more runs of another length: {', '.join(told)}."] if told else []


def other_code(cells: Sequence[Cell], store: Store) -> list[str]:
    """What earlier versions of the user's own methods have left."""
    if not (others := store.of_other_code(cells)):
        return []
    counts = Counter(path.name.partition(".")[0] for path in others)
    told = ", ".join(f"{name} (runs: {count})" for name, count in sorted(counts.items()))
    return [f"Not shown, as the code was different from today's: {told}."]


def asked_by(scale: Fraction) -> str:
    return "the full length" if scale == FULL else f"--scale {scale}"


def short(commit: str | None) -> str:
    if commit is None:
        return "an unknown commit"
    return commit[:12] + (" with changes" if commit.endswith("+") else "")


def text(page: Page) -> str:
    parts = [page.title]
    for grid in page.grids:
        lines = aligned([grid.header, *grid.rows])
        rule = "-" * max(map(len, lines))
        parts.append("\n".join([grid.title, rule, lines[0], rule, *lines[1:]]))
    return "\n\n".join([*parts, "\n".join(page.notes)]).rstrip() + "\n"


def aligned(rows: list[Row]) -> list[str]:
    """Columns of equal width: the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]


SYMBOLS = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "–": r"\textendash{}",
    "±": r"$\pm$", "→": r"$\to$", "×": r"$\times$", "‖": r"$\Vert$", "≤": r"$\le$",
    "γ": r"$\gamma$", "ε": r"$\varepsilon$", "λ": r"$\lambda$", "η": r"$\eta$", "π": r"$\pi$",
    "κ": r"$\kappa$",
    "Δ": r"$\Delta$", "Π": r"$\Pi$",
})  # fmt: skip


def in_latex(text: str) -> str:
    """Text without meaning of its own to LaTeX; `words` as code, "words" in its quotation marks,
    `--` as two signs.
    """
    plain = text.translate(SYMBOLS).replace("--", "-{}-")
    return re.sub('"([^"]*)"', r"``\1''", re.sub("`([^`]*)`", r"\\texttt{\1}", plain))


def filled(template: str, page: Page) -> str:
    """The page by a template of this package."""
    made = environment("tamatch.bench")
    made.filters["in_latex"] = in_latex
    return made.get_template(template).render(page=page).rstrip() + "\n"


FORMATS: dict[str, Callable[[Page], str]] = {
    "text": text,
    "markdown": partial(filled, "table.md.j2"),
    "latex": partial(filled, "table.tex.j2"),
    "html": partial(filled, "table.html.j2"),
}
