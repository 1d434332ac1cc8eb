"""What the results of a bench that are in say about a claim, and what they lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tamatch.bench.cells import SEEDS, Cell, Setting
from tamatch.bench.plans import PLANS
from tamatch.bench.results import Result, Store

ANY_SCORE = ""  # of figures that are not errors
Figures = dict[str, str]  # by setting, as `short` names it


@dataclass(frozen=True)
class Verdict:
    """A judgement, and the figures it stands on: by the score that errors are compared at."""

    said: str
    figures: dict[str, Figures] = field(default_factory=dict)


Figure = Callable[[list[tuple[Result, ...]]], tuple[str, bool | None]]
Which = Callable[[Result], bool]


def every(result: Result) -> bool:
    return True


class Evidence:
    """The results of one bench and one length."""

    def __init__(self, store: Store, bench: str, scale: Fraction) -> None:
        self.store, self.bench, self.scale = store, bench, scale
        self.settings = PLANS[bench].settings

    def by_seed(
        self, methods: Sequence[str], setting: Setting, usable: Which = every
    ) -> list[tuple[Result, ...]]:
        """The usable results of these methods, one tuple for each seed that all of them have.

        Equal seeds have equal labels.
        """
        rows = []
        for seed in SEEDS:
            cells = [Cell(self.bench, setting, method, seed, self.scale) for method in methods]
            found = [result for result in self.store.results(cells).values() if usable(result)]
            if len(found) == len(methods):
                rows.append(tuple(found))
        return rows

    def judge(
        self, methods: Sequence[str], figure: Figure, usable: Which = every, least: int = 1
    ) -> Verdict:
        """A figure of each setting and whether the claim holds there (None: within the noise).

        It is open while cells are missing. Settings in which fewer than `least` seeds are there
        show nothing yet.
        """
        shown: Figures = {}
        held: list[bool | None] = []
        for setting in self.settings:
            found = self.by_seed(methods, setting, usable)
            if len(found) < least:
                continue
            text, holds = figure(found)
            shown[short(setting)] = f"{text}{few(found)}"
            held.append(holds)
        finding = in_settings(held) if held else None
        return Verdict(self.so_far(finding, methods, usable), {ANY_SCORE: shown} if shown else {})

    def so_far(self, finding: str | None, methods: Sequence[str], usable: Which = every) -> str:
        """A finding with what it lacks: cells of these methods, or curves in them."""
        total = len(methods) * len(self.settings) * len(SEEDS)
        there, of_use = (
            sum(len(self.by_seed([m], s, which)) for m in methods for s in self.settings)
            for which in (every, usable)
        )
        lacks = [f"{total - there} of {total} cells missing"] if there < total else []
        if of_use < there:
            lacks.append(f"{there - of_use} of {there} runs without these curves")
        if not lacks and finding is not None:
            return finding
        return "; ".join([f"open: {', '.join(lacks)}", *([f"so far {finding}"] if finding else [])])


Judge = Callable[[Evidence], Verdict]


def in_settings(held: Sequence[bool | None]) -> str:
    """In how many settings a claim holds, and in how many nothing can be said."""
    within = f", open in {held.count(None)}: within the noise" if None in held else ""
    return f"holds in {held.count(True)} of {len(held)} settings{within}"


def few(found: Sequence[object]) -> str:
    """How many seeds there are, where it is not all."""
    return "" if len(found) == len(SEEDS) else f" (n = {len(found)})"


def short(setting: Setting) -> str:
    """A setting's title; without the data set where all settings of a bench share it."""
    return setting.title.removeprefix("CIFAR-10-LT, ")
