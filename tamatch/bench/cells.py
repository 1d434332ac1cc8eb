"""One run of a bench, its shorter form (`--scale 1/8`), and the plan of a table's runs."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..methods import METHODS, entry
from ..rules import pace
from ..settings import recipes
from ..settings.config import as_words
from . import published

RECIPE = 1  # raised by every change to the package that alters results; no table mixes two
SEEDS = (0, 1, 2)
MACHINE = ("root", "device", "weights")  # options of the machine that makes a run, not of the run
FULL = Fraction(1)
LAMBDA_TARGET = 0.99999  # of TaMatch where the target moves
INTERVALS = ("log_every", "test_every")  # a checkpoint costs as much in a short run: they stay


@dataclass(frozen=True)
class Setting:
    """One column of a table. All else comes from the data set's recipe."""

    name: str
    title: str
    data: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Variant:
    """One row of a table of causes. Its name is part of the names of its runs."""

    name: str
    title: str
    options: dict[str, Any] = field(hash=False)
    method: str = "tamatch"


@dataclass(frozen=True)
class Cell:
    """One run. Benches that need the same run share it: the bench is no part of its name."""

    bench: str
    setting: Setting
    method: str
    seed: int
    scale: Fraction = FULL
    variant: Variant | None = None
    code: str = ""  # checksum of a method of the user's own

    @property
    def row(self) -> str:
        """Its row in a table: the method, or what differs from it."""
        return self.method if self.variant is None else self.variant.name

    @property
    def method_name(self) -> str:
        """The method in results: of the user's own, the class and the checksum of its code."""
        return f"{self.method.rpartition(':')[2]}@{self.code}" if self.code else self.method

    @property
    def name(self) -> str:
        """Unique among all runs, and the path of its files."""
        method = self.method_name
        what = method if self.variant is None else f"{method}+{self.variant.name}"
        length = "full" if self.scale == FULL else str(self.scale).replace("/", "of")
        return f"{self.setting.name}/{what}.s{self.seed}.{length}.r{RECIPE}"

    @property
    def options(self) -> dict[str, Any]:
        """What `tamatch.train` is called with."""
        data = self.setting.data
        named = {"data": data, "method": self.method, "seed": self.seed, "baseline": "none"}
        other = {} if self.variant is None else self.variant.options
        short = shortened(data, self.method, self.scale)
        return {**named, **short, **self.setting.options, **other}

    def command(self, machine: Mapping[str, Any]) -> str:
        """What makes this run, with the options of MACHINE that were given."""
        options = {**self.options, **machine}
        words = (word for name, value in options.items() for word in as_words(name, value))
        return shlex.join(["tamatch", "train", *words])


def named_length(text: str) -> Fraction | None:
    """The scale that a file's name says; None if it says none."""
    try:
        return FULL if text == "full" else Fraction(text.replace("of", "/"))
    except (ValueError, ZeroDivisionError):
        return None


@dataclass(frozen=True)
class Plan:
    """The rows and columns of a table, and the cells the paper has no run for."""

    title: str
    methods: tuple[str, ...]
    settings: tuple[Setting, ...]
    printed: published.Table | None = None
    notes: tuple[str, ...] = ()
    absent: frozenset[tuple[str, str]] = frozenset()  # (data, method)
    variants: tuple[Variant, ...] = ()  # rows beside those of the methods
    against: str = ""  # row that the others are compared with
    pretrained: bool = False  # the nets are meant to start from a file of weights
    codes: Mapping[str, str] = field(default_factory=dict, hash=False)  # of the user's own methods

    @property
    def rows(self) -> dict[str, str]:
        """The titles of all rows, by name."""
        return {
            **{m: m if m in self.codes else METHODS[m].title for m in self.methods},
            **{variant.name: variant.title for variant in self.variants},
        }

    def cells(self, bench: str, seeds: Sequence[int] = SEEDS, scale: Fraction = FULL) -> list[Cell]:
        """Seed by seed, so that a full table comes early; the user's own methods come first."""
        rows: list[tuple[str, Variant | None]] = [
            *((method, None) for method in self.methods),
            *((variant.method, variant) for variant in self.variants),
        ]
        rows.sort(key=lambda row: row[0] not in self.codes)
        return [
            Cell(bench, setting, method, seed, scale, variant, self.codes.get(method, ""))
            for seed in seeds
            for setting in self.settings
            for method, variant in rows
            if (setting.data, method) not in self.absent
        ]


def full_steps(data: str) -> int:
    """Steps of the full-length recipe."""
    return int(recipes.PROTOCOLS[data]["steps"])


def target_momentum(data: str, method: str) -> float:
    """λ_target of the full-length recipe; 1 where the target does not move."""
    fixed = entry(method).options.get("lambda_target")
    if fixed is not None:
        return float(fixed)
    adaptive = recipes.defaults(data, method, named=True).options.get("target") == "adaptive"
    return LAMBDA_TARGET if adaptive else 1.0


def shortened(data: str, method: str, scale: Fraction) -> dict[str, Any]:
    """The options that differ from the full-length recipe: what is counted in steps shrinks.

    λ_target becomes λ_target^(1/scale), so that the target moves as far over the whole run. The
    weight average, λ_model and the lengths of memories answer to the noise of single steps: they
    stay, but for recipes whose weight average follows the number of steps.
    """
    if scale == FULL:
        return {}
    recipe = recipes.defaults(data, method, named=True).run
    options: dict[str, Any] = {k: shrink(recipe[k], scale, 1) for k in ("steps", *INTERVALS)}
    options["warmup"] = shrink(recipe["warmup"], scale, 0)
    if data in recipes.TUNED_SETS:
        options["ema"] = pace.ema_momentum(options["steps"])
    momentum = target_momentum(data, method)
    if momentum < 1:
        options["lambda_target"] = momentum ** float(1 / scale)
    for name, count in counted(data, method).items():
        options[name] = shrink(count, scale, entry(method).counts[name].least)
    return options


def counted(data: str, method: str) -> dict[str, int]:
    """The method's options that count steps, as in the full-length recipe."""
    preset = recipes.defaults(data, method, named=True).options
    return {
        name: int(preset.get(name, min(count.most, full_steps(data) // count.share)))
        for name, count in entry(method).counts.items()
    }


def shrink(count: int, scale: Fraction, least: int) -> int:
    return max(least, round(count * scale))


def explain(cells: Sequence[Cell]) -> list[str]:
    """In words, what their scale does to these runs."""
    if not cells:
        return []
    if (scale := cells[0].scale) == FULL:
        return ["Runs of full length."]
    pairs = [(cell.setting.data, cell.method) for cell in cells]
    lines = [f"Runs of {scale} of the full length:"]
    for data in dict.fromkeys(data for data, _ in pairs):
        full = recipes.PROTOCOLS[data]
        short = shortened(data, "supervised", scale)
        moved = [f"{k.replace('_', ' ')} {full[k]:,} → {v:,}" for k, v in short.items()]
        lines.append(f"{data}: {', '.join(moved)}.")
    if any(target_momentum(*pair) < 1 for pair in pairs):
        power = float(1 / scale)
        moved_target = f"{LAMBDA_TARGET}^{power:g} = {LAMBDA_TARGET**power:.10g}"
        lines.append(f"λ_target {LAMBDA_TARGET} → {moved_target}.")
    delays = {counted(*pair).get("memory_after") for pair in pairs}
    for delay in sorted(delay for delay in delays if delay is not None):
        fewer = shrink(delay, scale, 0)
        lines.append(f"CoMatch and SimMatch: memory after {delay:,} → {fewer:,} steps.")
    for data in sorted({data for data, method in pairs if method == "dash"}):
        moved_counts = [
            f"{name.replace('_', ' ')} {count:,} → {shrink(count, scale, 1):,}"
            for name, count in counted(data, "dash").items()
        ]
        lines.append(f"Dash on {data}: {', '.join(moved_counts)}.")
    follows = any(data in recipes.TUNED_SETS for data, _ in pairs)
    kept = "λ_model, learning rate, lengths of banks and queues."
    return [*lines, f"Unchanged: {'' if follows else 'weight average (EMA), '}{kept}"]
