"""Time to accuracy: after how many steps and minutes a method reaches some accuracies."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..methods import METHODS
from . import sweep
from .cells import Cell, Plan, Setting
from .published import MINUTES
from .results import Curve, Result, Store
from .tables import Grid, Page, Row, common_scale, makers, titled

if TYPE_CHECKING:
    from .racing import Racer

DEFAULTS = {
    "methods": "fixmatch,freematch,tamatch", "settings": "race-cifar10-250,race-cifar10-4000",
    "seeds": "0",
}  # fmt: skip
TARGETS = "80,90,94"
LIMIT = 90.0  # minutes
PRINTED = "EfficientMatch's repository, RTX 5060 Ti"  # of whom, and where measured
RULE = (
    "A target is reached at the first test with that accuracy; the steps between two tests are the "
    "most by which it may have been reached earlier. Minutes are those of training, from the first "
    "step on: with compiling, logging and saving, without tests. Several seeds are separated by "
    "strokes. A run ends at its last target or its limit; its schedule is that of the full length."
)
OTHERS = (
    f"Printed minutes are those of {PRINTED}, three draws of labels: another GPU, other code, so "
    "they only tell the order of magnitude."
)


@dataclass(frozen=True)
class Race(sweep.Sweep):
    """Runs that end when they have reached the last of their targets."""

    targets: tuple[float, ...] = (80.0, 90.0, 94.0)  # percent, rising
    limit: float = LIMIT

    def plan(self, plan: Plan) -> Plan:
        """Its settings by the last target: a run to a lower one has another name."""
        last = f"to-{self.targets[-1]:g}"
        settings = tuple(replace(s, name=f"{s.name}-{last}") for s in plan.settings)
        return replace(plan, settings=settings)

    def runner(self, *given: Any, **named: Any) -> Racer:
        from .racing import Racer  # with torch

        if named.get("abreast", 1) > 1:
            raise UsageError(
                "bench race measures time, so its runs cannot share a GPU: leave out --abreast."
            )
        return Racer(*given, **named | {"target": self.targets[-1], "limit": 60 * self.limit})

    def page(self, plan: Plan, cells: Sequence[Cell], store: Store) -> Page:
        results = store.results(cells)
        grids = [self.grid(plan, setting, cells, results) for setting in plan.settings]
        spacing = sorted({gap for result in results.values() for gap in result.error.step[:1]})
        tested = [f"Tests are {' or '.join(f'{s:,}' for s in spacing)} steps apart."]
        done = f"{len(results)} of {len(cells)} cells done. {RULE}"
        printed = [OTHERS] if any(printed_rows(s, self.targets) for s in plan.settings) else []
        made = makers(results.values())
        return Page(plan.title, grids, [done, *tested[: bool(spacing)], *printed, *made])

    def grid(
        self, plan: Plan, setting: Setting, cells: Sequence[Cell], results: dict[Cell, Result]
    ) -> Grid:
        """The table of one setting."""
        shown = [f"{target:g} %" for target in self.targets]
        columns = [(f"steps to {t}", f"minutes to {t}") for t in shown]
        rows: list[Row] = []
        for name, title in plan.rows.items():
            own = [cell for cell in cells if (cell.setting, cell.row) == (setting, name)]
            found = [results[cell] for cell in own if cell in results]
            words = [w for t in self.targets for w in reached_in_words(found, t)]
            rows.append((title, *words, f"{len(found)}/{len(own)}"))
        header = ("method", *(word for column in columns for word in column), "n")
        title = titled(setting.title, common_scale(cells))
        return Grid(title, header, [*rows, *printed_rows(setting, self.targets)])


def reached(result: Result, target: float) -> tuple[int, float] | None:
    """The step of the first test with this accuracy, and the seconds until then."""
    clock = result.clock or Curve([], [])  # of a run without a test
    tests = zip(result.error.step, result.error.value, clock.value, strict=True)
    return next(((step, at) for step, error, at in tests if error <= 100 - target + 1e-6), None)


def reached_in_words(results: Sequence[Result], target: float) -> tuple[str, str]:
    """Steps and minutes of each seed; of one that did not get there, how long it was trained."""
    found = [(reached(result, target), result) for result in results]
    steps = [f"{at[0]:,}" if at else "not reached" for at, _ in found]
    minutes = [f"{at[1] / 60:.1f}" if at else f"> {trained(r) / 60:.1f}" for at, r in found]
    return " / ".join(steps) or "missing", " / ".join(minutes) or "missing"


def trained(result: Result) -> float:
    """The seconds until the last test."""
    return result.clock.value[-1] if result.clock else result.seconds


def printed_rows(setting: Setting, targets: Sequence[float]) -> list[Row]:
    """What others have printed of the same data and a target of these."""
    name = setting.name.removeprefix("race-").partition("-to-")[0]
    target = MINUTES["target"].get(name)
    if target is None or float(target) not in targets:
        return []
    return [
        (
            f"{METHODS[method].title}, printed",
            *(w for t in targets for w in ("", cells[name] if t == float(target) else "")),
            "",
        )
        for method, cells in MINUTES.items()
        if method != "target"
    ]


def read_targets(text: str) -> tuple[float, ...]:
    """`--targets 80,90`: accuracies in percent."""
    try:
        found = tuple(sorted({float(word) for word in text.split(",")}))
    except ValueError:
        found = ()
    if not found or not all(0 < target < 100 for target in found):
        raise UsageError(f"--targets takes accuracies in percent such as 80,90, got {text!r}.")
    return found


def add_arguments(parser: ArgumentParser) -> None:
    sweep.add_arguments(parser)
    parser.set_defaults(**DEFAULTS)
    when = parser.add_argument_group("when a run ends")
    when.add_argument(
        "--targets", default=TARGETS, metavar="80,90", help=f"accuracies (default: {TARGETS})"
    )
    when.add_argument(
        "--limit", type=float, default=LIMIT, metavar="MINUTES",
        help=f"end a run that takes longer, tests included (default: {LIMIT:g})",
    )  # fmt: skip


def run(arguments: Namespace) -> int:
    if not arguments.limit > 0:
        raise UsageError(f"--limit must be above 0, got {arguments.limit:g}.")
    return sweep.run(arguments, Race(read_targets(arguments.targets), arguments.limit))
