"""Figures 3 and 4 and those on long tails, drawn from stored results with matplotlib, an extra.

`tamatch bench` makes the runs; the figures share them with the tables.
"""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, TypeVar

from tamatch.bench import published
from tamatch.bench.cells import FULL, SEEDS, Cell, Setting
from tamatch.bench.plans import (
    DIGITS,
    EUROSAT,
    LONG_TAIL,
    OTHER_POOLS,
    PLANS,
    STAND_IN,
    STL10,
    one_name,
    scale_of,
)
from tamatch.bench.results import Curve, Result, Store, Vectors
from tamatch.errors import DataError, UsageError
from tamatch.methods import METHODS
from tamatch.storage.files import writing
from tamatch.storage.folder import make_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Data = TypeVar("Data")

TITLES = {setting.name: setting.title for plan in PLANS.values() for setting in plan.settings}

COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")  # also told apart by the colour-blind
OF_METHOD = {"fixmatch": COLOURS[0], "tamatch": COLOURS[1], "tamatch_no_clipping": COLOURS[2]}
TO = {"truth": "-", "target": ":"}  # what p_model is compared with, and the line's style
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "tamatch",  # the same figure is the same file
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e5e5",
    "legend.frameon": False,
}


def require() -> None:
    """Complain before the work begins, not after it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("figures need matplotlib: `pip install matplotlib`.") from None


def save(draw: Callable[[Data], Figure], data: Data, folder: Path, name: str) -> list[Path]:
    """Draw a figure in our style and write it as NAME.svg and NAME.png."""
    from matplotlib import rc_context

    make_folder(folder)
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    with rc_context(STYLE):
        figure = draw(data)
        with writing(folder):
            figure.savefig(paths[0], metadata={"Date": None})
            figure.savefig(paths[1], dpi=160)
    print(f"Figure: {paths[0]} and {paths[1].name}", file=sys.stderr)
    return paths


def canvas(panels: int) -> tuple[Figure, list[Axes]]:
    """A row of panels, without the global state of pyplot."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * panels, 3.4), layout="constrained")
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def bias(results: Sequence[Result]) -> Figure:
    """Figure 3: accuracy of each class, KL[p_model ‖ p_truth] and the share of images used."""
    figure, (classes, divergence, used) = canvas(3)
    groups = by_method(results)
    width = 0.8 / len(groups)
    for i, (method, own) in enumerate(groups.items()):
        lengths = class_means(own)
        at = [c + (i + 0.5) * width - 0.4 for c in range(len(lengths))]
        colour, title = OF_METHOD[method], METHODS[method].title
        classes.barh(at, lengths, width, color=colour, label=title)
        curves(divergence, [r.kl_truth for r in own], colour, title)
        curves(used, [r.utilization for r in own], colour, title)
    names = results[0].classes
    classes.set_yticks(range(len(names)), names)
    classes.invert_yaxis()
    classes.set(title="(a) accuracy of each class at the end", xlabel="%", xlim=(0, 100))
    truth = "the pool's class shares" if results[0].truth == "pool" else "uniform shares"
    divergence.set(title=f"(b) KL of p_model to {truth}", xlabel="step", ylabel="nats")
    used.set(title="(c) utilization of unlabelled images", xlabel="step", ylim=(0, 1))
    divergence.set_yscale("log")  # the way from the uniform start dwarfs all that follows
    figure.suptitle(subject(results[0]))
    figure.legend(
        *classes.get_legend_handles_labels(), loc="outside lower center", ncols=len(groups)
    )
    return figure


def clipping(results: Sequence[Result]) -> Figure:
    """Figure 4: the test error during training."""
    figure, (panel,) = canvas(1)
    for method, own in by_method(results).items():
        curves(panel, [r.error for r in own], OF_METHOD[method], METHODS[method].title)
    panel.set(title=subject(results[0], "\n"), xlabel="step", ylabel="test error (%)")
    panel.legend()
    return figure


def full_length(results: Sequence[Result]) -> Figure:
    """Runs on long-tailed CIFAR-10 from start to end, and what the paper prints for them."""
    figure, (error, divergence) = canvas(2)
    for method, own in by_method(results).items():
        colour, title = OF_METHOD.get(method, COLOURS[3]), METHODS[method].title
        curves(error, [r.error for r in own], colour, title)
        printed = published.TABLE_3.get(method, {}).get(own[0].setting)
        if printed is not None and printed.mean is not None and printed.std is not None:
            ends = printed.mean - printed.std, printed.mean + printed.std
            error.axhspan(*ends, color=colour, alpha=0.25, lw=0, label=f"{title}, as printed")
        for kind, style in TO.items():
            found = [c for r in own if (c := getattr(r, f"kl_{kind}")) is not None]
            if found:
                curves(divergence, found, colour, "", style)
    error.set(title="(a) test error", xlabel="step", ylabel="%")
    error.set_ylim(top=1.8 * min(min(r.error.value) for r in results))  # the start is far above
    divergence.set(title="(b) KL of p_model", xlabel="step", ylabel="nats", yscale="log")
    for kind, style in TO.items():
        divergence.plot([], style, color="grey", label=f"to the {kind}")
    figure.legend(loc="outside lower center", ncols=3)
    figure.suptitle(f"{subject(results[0])}, full length")
    return figure


def classes(results: Sequence[Result]) -> Figure:
    """The accuracy of each class during training."""
    figure, panels = panels_of_classes(results, lambda result: result.per_class)
    panels[0].set(ylabel="accuracy (%)", ylim=(0, 101))
    return figure


def pool(results: Sequence[Result]) -> Figure:
    """What each method takes for the pool's class shares, and dotted what they are."""
    figure, panels = panels_of_classes(results, lambda result: result.p_model)
    for panel in panels:
        for share, colour in zip(true_shares(results[0]), shades(results[0]), strict=True):
            panel.axhline(share, color=colour, ls=":", lw=1.4)
    panels[0].set(ylabel="p_model", yscale="log", ylim=(min(true_shares(results[0])) / 20, 1))
    return figure


def panels_of_classes(
    results: Sequence[Result], of: Callable[[Result], Vectors | None]
) -> tuple[Figure, list[Axes]]:
    """A panel for each method with a line for each class, the mean over the seeds all have."""
    groups = by_method(result for result in results if of(result) is not None)
    seeds = set.intersection(*({r.seed for r in own} for own in groups.values() or [[]]))
    if not seeds:
        raise DataError("The runs of this figure have no seed in common that has these curves.")
    figure, panels = canvas(len(groups))
    for panel, (method, own) in zip(panels, groups.items(), strict=True):
        found = [v for r in own if r.seed in seeds and (v := of(r)) is not None]
        panel.set(title=METHODS[method].title, xlabel="step")
        panel.sharey(panels[0])
        for i, colour in enumerate(shades(results[0])):
            lines = [Curve(v.step, [row[i] or 0.0 for row in v.value]) for v in found]
            curves(panel, lines, colour, named(results[0], i))
    length = ", full length" if results[0].scale == "1" else ""
    counted = f"seed {min(seeds)}" if len(seeds) == 1 else f"mean of {len(seeds)} seeds"
    figure.suptitle(f"{subject(results[0])}{length}, {counted}")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure, panels


def named(result: Result, i: int) -> str:
    return f"{result.classes[i]}, {100 * true_shares(result)[i]:.2g} % of the pool"


def true_shares(result: Result) -> list[float]:
    """Those of the pool where they are known, otherwise equal ones."""
    known = result.made["data"]["true_shares"]
    return known or [1 / len(result.classes)] * len(result.classes)


def shades(result: Result) -> list[Any]:
    """A colour for each class: classes of few labels are light."""
    from matplotlib import colormaps

    shares = result.made["data"]["labelled_shares"]
    order = sorted(range(len(shares)), key=lambda i: -shares[i])
    return [colormaps["viridis"](0.92 * order.index(i) / len(order)) for i in range(len(shares))]


def subject(result: Result, comma: str = ", ") -> str:
    """What a figure is of."""
    length = "" if result.scale == "1" else f"{comma}{result.scale} of the full length"
    return f"{TITLES[result.setting]}{length}"


def by_method(results: Iterable[Result]) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.method, []).append(result)
    return groups


def class_means(results: Sequence[Result]) -> list[float]:
    """The accuracy of each class, the mean over seeds; 0 for a class that was not tested."""
    rows = [r.per_class_accuracy for r in results if r.per_class_accuracy is not None]
    return [mean(v or 0.0 for v in column) for column in zip(*rows, strict=True)]


def curves(panel: Axes, found: Sequence[Curve], colour: str, label: str, style: str = "-") -> None:
    """Each seed as a thin line and their mean as a thick one."""
    if len(found) > 1:
        for curve in found:
            panel.plot(curve.step, curve.value, style, color=colour, lw=0.7, alpha=0.45)
    values = [mean(column) for column in zip(*(c.value for c in found), strict=False)]
    panel.plot(found[0].step[: len(values)], values, style, color=colour, lw=1.8, label=label)
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.locator_params(axis="x", nbins=5)  # longer numbers than usual


@dataclass(frozen=True)
class Comparison:
    """What a figure compares, and which bench makes its runs on each data set."""

    draw: Callable[[Sequence[Result]], Figure]
    methods: tuple[str, ...]
    benches: dict[str, tuple[str, Setting]]  # by data set, the paper's first

    def cells(self, data: str, scale: Fraction) -> list[Cell]:
        bench, setting = self.benches[data]
        return [Cell(bench, setting, m, seed, scale) for seed in SEEDS for m in self.methods]

    def command(self, data: str, scale: Fraction) -> str:
        """What makes the runs."""
        bench, setting = self.benches[data]
        length = "" if scale == FULL else f" --scale {scale}"
        rows = f"--settings {setting.name} --methods {','.join(self.methods)}"
        return f"tamatch bench {bench} {rows}{length}"


TAILS = ("fixmatch", "tamatch", "tamatch_lt")
TAIL_DATA = {
    "cifar10-lt": ("tails", LONG_TAIL[3]),
    **{setting.name: ("tails", setting) for setting in (*LONG_TAIL[:3], *OTHER_POOLS)},
}
FIGURES = {
    "bias": Comparison(
        bias,
        ("fixmatch", "tamatch"),
        {
            "stl10": ("usb", STL10[0]), "eurosat": ("usb", EUROSAT[0]),
            "eurosat-tuned": ("stand-in", STAND_IN[0]), "cifar10-tuned": ("stand-in", STAND_IN[2]),
            "cifar10-lt": ("lt", LONG_TAIL[2]), "digits": ("digits", DIGITS),
        },
    ),
    "clipping": Comparison(
        clipping,
        ("tamatch_no_clipping", "tamatch"),
        {"cifar10-lt": ("ablation-lt", LONG_TAIL[3]), "digits": ("digits", DIGITS)},
    ),
    "classes": Comparison(classes, TAILS, TAIL_DATA),
    "pool": Comparison(pool, TAILS, TAIL_DATA),
}  # fmt: skip


def add_arguments(parser: ArgumentParser) -> None:
    data = [*FIGURES[parser.get_default("command")].benches]
    parser.add_argument("--data", default=data[0], help=f"one of {', '.join(data)}")
    parser.add_argument("--scale", default="1", help="length of the runs, e.g. 1/8")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of results")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder of the figure")


def run(arguments: Namespace) -> int:
    require()
    name, scale = arguments.command, scale_of(PLANS["lt"], arguments.scale, None)
    figure = FIGURES[name]
    data = one_name("--data", arguments.data, tuple(figure.benches))
    cells, store = figure.cells(data, scale), Store(arguments.results)
    found = list(store.results(cells).values())
    if len(found) < len(cells):
        results = shlex.join(["--results", str(store.folder)])
        lacking = (
            f"{len(found)} of the {len(cells)} runs of this figure are in {store.folder}. "
            f"`{figure.command(data, scale)} {results}` makes the others."
        )
        if not found:
            raise DataError(lacking)
        print(lacking, file=sys.stderr)
    save(figure.draw, found, arguments.out, f"{name}-{cells[0].setting.name}")
    return 0
