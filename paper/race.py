"""`python -m paper race`: the error over the minutes of training, from the runs of `bench race`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tamatch.bench.cells import Cell, Plan
from tamatch.bench.plans import PLANS, names
from tamatch.bench.race import DEFAULTS, TARGETS, Race, read_targets
from tamatch.bench.results import Curve, Result, Store
from tamatch.bench.tables import FORMATS
from tamatch.errors import DataError
from tamatch.methods import METHODS

from .figures import COLOURS, OF_METHOD, by_method, canvas, require, save

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

FILE = "race"
TICKS = (10, 20, 40, 80)  # percent
OTHERS = (COLOURS[3], "#e69f00", "#56b4e9", "#000000", "#999999")


def add_arguments(parser: ArgumentParser) -> None:
    known = [setting.name for setting in PLANS[FILE].settings]
    parser.add_argument(
        "--settings",
        metavar="A,B",
        default=DEFAULTS["settings"],
        help=f"some of {', '.join(known)}",
    )
    parser.add_argument(
        "--targets", default=TARGETS, metavar="80,90", help="those that the runs were made with"
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of results")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder of the figure")


def run(arguments: Namespace) -> int:
    require()
    race = Race(read_targets(arguments.targets))
    results = begun(race, Store(arguments.results), arguments.settings)[1]
    if not results:
        raise DataError(
            f"no run of these settings and targets is in {arguments.results}: `tamatch bench race "
            f"--settings {arguments.settings} --targets {arguments.targets}` makes them."
        )
    save(picture(race), list(results.values()), arguments.out, FILE)
    return 0


def begun(
    race: Race, store: Store, settings: str = DEFAULTS["settings"]
) -> tuple[Plan, dict[Cell, Result]]:
    """The runs that are in, and the plan with their methods and the default ones."""
    plan = PLANS[FILE]
    wanted = names("--settings", settings, tuple(s.name for s in plan.settings))
    plan = race.plan(replace(plan, settings=tuple(s for s in plan.settings if s.name in wanted)))
    results = store.results(plan.cells(FILE))
    rows = {*DEFAULTS["methods"].split(","), *(cell.method for cell in results)}
    return replace(plan, methods=tuple(m for m in plan.methods if m in rows)), results


def page(store: Store) -> str:
    """The section of the page of results."""
    race = Race()
    plan, results = begun(race, store)
    if not results:
        return f"## {plan.title}\n\nNo run is done yet.\n"
    seeds = sorted({cell.seed for cell in results})
    return FORMATS["markdown"](race.page(plan, plan.cells(FILE, seeds), store))


def picture(race: Race) -> Callable[[Sequence[Result]], Figure]:
    """What draws the error over the minutes of training, a panel for each setting."""

    def draw(results: Sequence[Result]) -> Figure:
        settings = {s.name: s for s in race.plan(PLANS[FILE]).settings}
        there = [name for name in settings if any(r.setting == name for r in results)]
        figure, panels = canvas(len(there))
        free = iter(OTHERS * len(METHODS))
        colours = {m: OF_METHOD.get(m) or next(free) for m in by_method(results)}
        for panel, name in zip(panels, there, strict=True):
            own = by_method(result for result in results if result.setting == name)
            for method, found in own.items():
                lines = [over_time(result) for result in found if result.clock]
                for line in lines:
                    panel.plot(*line, color=colours[method], lw=1.4, label=METHODS[method].title)
            for target in race.targets:
                panel.axhline(100 - target, color="grey", ls=":", lw=1)
            panel.set(title=settings[name].title, xlabel="minutes of training", ylabel="error (%)")
            panel.set_yscale("log")
            panel.set_yticks(sorted({*TICKS, *(100 - target for target in race.targets)}))
            panel.yaxis.set_major_formatter("{x:g}")
            panel.minorticks_off()
        named: dict[str, Artist] = {}
        for panel in panels:
            named |= {t: h for h, t in zip(*panel.get_legend_handles_labels(), strict=True)}
        figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=4)
        return figure

    return draw


def over_time(result: Result) -> tuple[list[float], list[float]]:
    """Minutes and errors of a run's tests."""
    clock = result.clock or Curve([], [])
    return [seconds / 60 for seconds in clock.value], result.error.value
