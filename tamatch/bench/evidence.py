"""Verdicts on the paper's claims from the results there are, each with the figures behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from operator import gt, lt
from statistics import mean, stdev

from . import published
from .cells import SEEDS, Cell
from .curves import Curve
from .eighths import EIGHTHS, parts
from .plans import PLANS
from .rank import by_seed, own_errors, standings
from .record import Result
from .scale import FULL
from .settings import LONG_TAIL, Setting
from .store import Store
from .tables import spread

ALIKE = 5.0  # utilizations that differ by fewer points are "roughly the same"
NEAR_ONE = 1.1  # scaling factors below this change little
NONE_YET = "none yet"
SYMBOLS = {"gamma": "γ", "head_labelled": "N_l"}
OURS_AND_FIXMATCH = ("tamatch", "fixmatch")


@dataclass(frozen=True)
class Verdict:
    """A judgement, and the figures it stands on."""

    said: str
    figures: str


Figure = Callable[[list[tuple[Result, ...]]], tuple[str, bool]]


class Evidence:
    """The results on long-tailed CIFAR-10 of one length."""

    def __init__(self, store: Store, scale: Fraction) -> None:
        self.store, self.scale = store, scale

    def by_seed(
        self,
        methods: Sequence[str],
        setting: Setting,
        tells: Callable[[Result], bool] = lambda result: True,
    ) -> list[tuple[Result, ...]]:
        """The results of these methods, one tuple for each seed that all of them have.

        Equal seeds have equal labels. A result counts if it `tells` what is asked.
        """
        rows = []
        for seed in SEEDS:
            cells = [Cell("lt", setting, method, seed, self.scale) for method in methods]
            found = [result for result in self.store.found(cells).values() if tells(result)]
            if len(found) == len(methods):
                rows.append(tuple(found))
        return rows

    def judge(
        self,
        methods: Sequence[str],
        figure: Figure,
        tells: Callable[[Result], bool] = lambda result: True,
        least: int = 1,
    ) -> Verdict:
        """One figure a setting and whether the claim holds there; open while cells are missing.

        Settings in which fewer than `least` seeds are there show nothing yet.
        """
        shown, held = [], []
        for setting in LONG_TAIL:
            found = self.by_seed(methods, setting, tells)
            if len(found) < least:
                continue
            text, holds = figure(found)
            few = "" if len(found) == len(SEEDS) else f" (n = {len(found)})"
            shown.append(f"{short(setting)}: {text}{few}")
            held.append(holds)
        finding = f"holds in {sum(held)} of {len(held)} settings" if held else None
        return Verdict(self.so_far(finding, methods, tells), "; ".join(shown) or NONE_YET)

    def so_far(
        self,
        finding: str | None,
        methods: Sequence[str],
        tells: Callable[[Result], bool] = lambda result: True,
    ) -> str:
        """A finding with what it lacks: cells of these methods, or what they should tell."""
        total = len(methods) * len(LONG_TAIL) * len(SEEDS)
        there, telling = (
            sum(len(self.by_seed([m], s, which)) for m in methods for s in LONG_TAIL)
            for which in (lambda result: True, tells)
        )
        lacks = [f"{total - there} of {total} cells missing"] if there < total else []
        lacks += (
            [f"{there - telling} of {there} runs without these curves"] if telling < there else []
        )
        if not lacks and finding is not None:
            return finding
        return "; ".join([f"open: {', '.join(lacks)}", *([f"so far {finding}"] if finding else [])])


Judge = Callable[[Evidence], Verdict]


def short(setting: Setting) -> str:
    options = setting.options
    heads = f"{options['head_labelled']}/{options['head_unlabelled']}"
    return f"{heads}, γ {options['gamma']:.0f}"


Score = Callable[[Result], float]


def last_error(result: Result) -> float:
    assert result.error_last is not None  # CIFAR-10 has a test set
    return result.error_last


def best_error(result: Result) -> float:
    assert result.error_best is not None
    return result.error_best


def by_both_scores(judge_by: Callable[[Score], Judge]) -> Judge:
    """The errors at the last step, and at the best test: the paper does not say which it prints."""

    def judge(evidence: Evidence) -> Verdict:
        last, best = (judge_by(score)(evidence) for score in (last_error, best_error))
        alike = last.said == best.said
        said = last.said if alike else f"{last.said}; at the best test {best.said}"
        if last.figures == NONE_YET:
            return Verdict(said, NONE_YET)
        return Verdict(said, f"{last.figures}. At the best test {best.figures}")

    return judge


def compared(
    value: Callable[[Result], float],
    shown: str,
    holds: Callable[[float, float], bool],
    ours: str = "tamatch",
    theirs: str = "fixmatch",
) -> Judge:
    """How the means of two methods stand to each other.

    `shown` is the text around both means and, where it has a third place, their difference.
    """

    def figure(found: list[tuple[Result, ...]]) -> tuple[str, bool]:
        pairs = [(value(a), value(b)) for a, b in found]
        a, b = (mean(values) for values in zip(*pairs, strict=True))
        return shown.format(a, b, spread([x - y for x, y in pairs], "+.2f")), holds(a, b)

    return lambda evidence: evidence.judge((ours, theirs), figure)


def lower_error(ours: str, theirs: str) -> Judge:
    """The first method's mean error is below the second's."""
    shown = "{:.2f} against {:.2f}, {}"
    return by_both_scores(lambda score: compared(score, shown, lt, ours, theirs))


def smaller_deviation_by(score: Score) -> Judge:
    """TaMatch's error varies less over seeds than FixMatch's and FreeMatch's."""

    def figure(found: list[tuple[Result, ...]]) -> tuple[str, bool]:
        ours, *others = (stdev(map(score, results)) for results in zip(*found, strict=True))
        text = f"{ours:.2f} against {' and '.join(f'{o:.2f}' for o in others)}"
        return text, ours < min(others)

    methods = ("tamatch", "fixmatch", "freematch")
    return lambda evidence: evidence.judge(methods, figure, least=len(SEEDS))


smaller_deviation = by_both_scores(smaller_deviation_by)


def throughout(evidence: Evidence) -> Verdict:
    """TaMatch's KL to the truth is below FixMatch's in every eighth of the run after the first.

    In the first one p_model comes from its uniform start, the same for both.
    """

    def figure(found: list[tuple[Result, ...]]) -> tuple[str, bool]:
        ours, theirs = (
            [mean(part) for part in zip(*(in_eighths(r.kl_truth) for r in results), strict=True)]
            for results in zip(*found, strict=True)
        )
        lower = sum(a < b for a, b in zip(ours[1:], theirs[1:], strict=True))
        text = f"lower in {lower} of {EIGHTHS - 1}, {ours[-1]:.4f} against {theirs[-1]:.4f} nats"
        return f"{text} in the last", lower == EIGHTHS - 1

    return evidence.judge(OURS_AND_FIXMATCH, figure)


def in_eighths(curve: Curve) -> list[float]:
    """The mean of each eighth of a run."""
    return [mean(part) for part in parts(curve, curve.step[-1])]


def swing(result: Result) -> float:
    """By what factor the KL changes between two points of its curve, after its first fall."""
    values = result.kl_truth.value
    later = values[len(values) // EIGHTHS :]
    return math.exp(mean(abs(math.log(b / a)) for a, b in pairwise(later) if a > 0 and b > 0))


def worst_class(result: Result) -> float:
    return min(v for v in result.per_class_accuracy or [] if v is not None)


larger_swings = compared(swing, "changes by a factor of {:.2f} against {:.2f}", lt)
same_utilization = compared(
    lambda r: 100 * mean(r.utilization.value),
    "{:.1f} against {:.1f} %",
    lambda a, b: abs(a - b) < ALIKE,
)
better_worst_class = compared(worst_class, "{:.1f} against {:.1f} %", gt)


def cost(
    evidence: Evidence, ablation: str, settings: Iterable[Setting], score: Score
) -> float | None:
    """How many points an ablation's error is above TaMatch's, over the settings that have both."""
    found = [evidence.by_seed((ablation, "tamatch"), setting) for setting in settings]
    gaps = [mean(score(a) - score(b) for a, b in pairs) for pairs in found if pairs]
    return mean(gaps) if gaps else None


def costs_more(ablation: str, option: str, at: float) -> Judge:
    """An ablation costs more where an option of the settings has this value than elsewhere."""
    here = [s for s in LONG_TAIL if s.options[option] == at]
    there = [s for s in LONG_TAIL if s not in here]

    def judge_by(score: Score) -> Judge:
        def judge(evidence: Evidence) -> Verdict:
            a, b = (cost(evidence, ablation, settings, score) for settings in (here, there))
            finding, figures = None, NONE_YET
            if a is not None and b is not None:
                finding = "holds" if a > b else "does not hold"
                figures = f"{a:+.2f} points at {SYMBOLS[option]} {at:.0f}, {b:+.2f} at the other"
            return Verdict(evidence.so_far(finding, (ablation, "tamatch")), figures)

        return judge

    return by_both_scores(judge_by)


def ratio_near_one(evidence: Evidence) -> Verdict:
    """The largest r is near 1 at the end."""

    def figure(found: list[tuple[Result, ...]]) -> tuple[str, bool]:
        curves = [r.largest_ratio.value for [r] in found if r.largest_ratio]
        peak, end = mean(map(max, curves)), mean(curve[-1] for curve in curves)
        bound = mean(r.r_max.value[-1] for [r] in found if r.r_max)
        text = f"largest r {peak:.2f} at its peak, {end:.2f} at the end, where r_max is {bound:.2f}"
        return text, end < NEAR_ONE

    def tells(result: Result) -> bool:  # the first runs did not keep these curves
        return result.largest_ratio is not None and result.r_max is not None

    return evidence.judge(("tamatch",), figure, tells)


def best_of_table_1(evidence: Evidence) -> Verdict:
    """TaMatch has the best Friedman rank and the lowest mean error, by the best tests."""
    plan = PLANS["usb"]
    cells = plan.cells("usb", scale=FULL)
    found = evidence.store.found(cells)
    if len(found) < len(cells):
        return Verdict(f"open: {len(cells) - len(found)} of {len(cells)} cells missing", NONE_YET)
    places = standings(own_errors(by_seed(plan, found, "error_best")))
    ours, others = places["tamatch"], [p for name, p in places.items() if name != "tamatch"]
    rank, error = min(p.rank for p in others), min(p.error for p in others)
    return Verdict(
        "holds" if ours.rank < rank and ours.error < error else "does not hold",
        f"rank {ours.rank:.2f}, the best other {rank:.2f}; "
        f"mean error {ours.error:.2f}, the lowest other {error:.2f}",
    )


def smaller_deviations_of_table_1(evidence: Evidence) -> Verdict:
    """TaMatch's deviation is below FixMatch's: by our runs, and by the print itself."""
    plan = PLANS["usb"]
    printed, held, there = [], [], 0
    for setting in plan.settings:
        print_pair = [published.TABLE_1[m][setting.name].std for m in OURS_AND_FIXMATCH]
        a, b = (std if std is not None else math.inf for std in print_pair)
        printed.append((a < b, f"{setting.name} {a} against {b}"))
        errors = [best_errors(evidence.store, m, setting) for m in OURS_AND_FIXMATCH]
        there += sum(map(len, errors))
        if min(map(len, errors)) == len(SEEDS):
            held.append(stdev(errors[0]) < stdev(errors[1]))
    total = len(OURS_AND_FIXMATCH) * len(plan.settings) * len(SEEDS)
    ours = f", ours in {sum(held)} of {len(held)}" if held else ""
    lacks = "" if there == total else f"; open: {total - there} of {total} cells missing"
    right = sum(holds for holds, _ in printed)
    said = f"holds in print in {right} of {len(printed)} settings{ours}{lacks}"
    wrong = "; ".join(text for holds, text in printed if not holds)
    return Verdict(said, f"printed: not in {wrong}")


def best_errors(store: Store, method: str, setting: Setting) -> list[float]:
    """The errors of all seeds of full length in Table 1, at their best tests."""
    cells = [Cell("usb", setting, method, seed, FULL) for seed in SEEDS]
    return [best_error(result) for result in store.found(cells).values()]
