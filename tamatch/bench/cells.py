"""One run of a bench, and the plan that lists the runs of a table or figure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ..methods import METHODS
from . import published
from .scale import FULL, shortened

RECIPE = 1  # raised by every change to the package that alters results; no table mixes two
SEEDS = (0, 1, 2)
MACHINE = ("root", "device", "weights")  # options of the machine that makes a run, not of the run


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
        """The method in results: one of the user's own by its class and what code that has.

        A changed file is another method, and the same file in another folder is the same one.
        """
        return f"{self.method.rpartition(':')[2]}@{self.code}" if self.code else self.method

    @property
    def name(self) -> str:
        """Unique among all runs, and the path of its files."""
        method = self.method_name
        what = method if self.variant is None else f"{method}+{self.variant.name}"
        return f"{self.setting.name}/{what}.s{self.seed}.{length_name(self.scale)}.r{RECIPE}"

    @property
    def options(self) -> dict[str, Any]:
        """What `tamatch.train` is called with."""
        data = self.setting.data
        named = {"data": data, "method": self.method, "seed": self.seed, "baseline": "none"}
        other = {} if self.variant is None else self.variant.options
        short = shortened(data, self.method, self.scale)
        return {**named, **self.setting.options, **short, **other}

    def command(self, machine: Mapping[str, Any]) -> str:
        """What makes this run, with the options of MACHINE that were given."""
        options = {**self.options, **machine}
        return " ".join(["tamatch train", *(flag(k, v) for k, v in options.items())])


def length_name(scale: Fraction) -> str:
    """A scale in the name of a file."""
    return "full" if scale == FULL else str(scale).replace("/", "of")


def named_length(text: str) -> Fraction | None:
    """The scale that a file's name says; None if it says none."""
    try:
        return FULL if text == "full" else Fraction(text.replace("of", "/"))
    except (ValueError, ZeroDivisionError):
        return None


def flag(name: str, value: Any) -> str:
    """An option on the command line; those that are on or off have no value."""
    words = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{words}" if value else f"--no-{words}"
    return f"--{words} {shlex.quote(str(value))}"


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
        """One seed after the other, so that the first full table comes early.

        The user's own methods come first, so that a mistake in one does not come late.
        """
        rows: list[tuple[str, Variant | None]] = [
            *((method, None) for method in sorted(self.methods, key=lambda m: m not in self.codes)),
            *((variant.method, variant) for variant in self.variants),
        ]
        return [
            Cell(bench, setting, method, seed, scale, variant, self.codes.get(method, ""))
            for seed in seeds
            for setting in self.settings
            for method, variant in rows
            if (setting.data, method) not in self.absent
        ]
