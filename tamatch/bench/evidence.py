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
from .rank import own_errors, standings
from .record import Result
from .scale import FULL
from .settings import LONG_TAIL, Setting
from .store import Store

ALIKE = 5.0  # utilizations that differ by fewer points are "roughly the same"
NEAR_ONE = 1.1  # scaling factors below this change little
NONE_YET = "none yet"
OURS_AND_FIXMATCH = ("tamatch", "fixmatch")


@dataclass(frozen=True)
class Verdict:
    """A judgement, and the figures it stands on."""

    said: str
    figures: str


class Evidence:
    """The results on long-tailed CIFAR-10 of one length."""

    def __init__(self, store: Store, scale: Fraction) -> None:
        self.store, self.scale = store, scale

    def of(self, method: str, setting: Setting) -> list[Result]:
        cells = [Cell("lt", setting, method, seed, self.scale) for seed in SEEDS]
        return list(self.store.found(cells).values())

    def mean(self, method: str, setting: Setting, value: Callable[[Result], float]) -> float | None:
        found = self.of(method, setting)
        return mean(map(value, found)) if found else None

    def judge(
        self,
        methods: Sequence[str],
        figure: Callable[[Setting], tuple[str, bool | None]],
        tells: Callable[[Result], bool] = lambda result: True,
    ) -> Verdict:
        """One figure a setting and whether the claim holds there; open while cells are missing.

        A cell whose result does not hold what is judged is missing, too: see if it `tells`.
        """
        shown, held = [], []
        for setting in LONG_TAIL:
            text, holds = figure(setting)
            if holds is not None:
                shown.append(f"{short(setting)}: {text}{self.count(methods, setting, tells)}")
                held.append(holds)
        finding = f"holds in {sum(held)} of {len(held)} settings" if held else None
        return Verdict(self.so_far(finding, methods, tells), "; ".join(shown) or NONE_YET)

    def count(
        self, methods: Sequence[str], setting: Setting, tells: Callable[[Result], bool]
    ) -> str:
        """In brackets, how many seeds a figure is of, where these are not all."""
        numbers = [sum(map(tells, self.of(method, setting))) for method in methods]
        if min(numbers) == len(SEEDS):
            return ""
        return f" (n = {' and '.join(map(str, dict.fromkeys(numbers)))})"

    def so_far(
        self,
        finding: str | None,
        methods: Sequence[str],
        tells: Callable[[Result], bool] = lambda result: True,
    ) -> str:
        """A finding with what it lacks: the cells of these methods that are missing."""
        total = len(methods) * len(LONG_TAIL) * len(SEEDS)
        found = [r for method in methods for setting in LONG_TAIL for r in self.of(method, setting)]
        there = sum(map(tells, found))
        lacks = f"open: {total - there} of {total} cells missing"
        if finding is None:
            return lacks
        return finding if there == total else f"{lacks}; so far {finding}"


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
    """How the means of two methods stand to each other; `shown` is the text around both."""

    def judge(evidence: Evidence) -> Verdict:
        def figure(setting: Setting) -> tuple[str, bool | None]:
            a, b = (evidence.mean(method, setting, value) for method in (ours, theirs))
            return ("", None) if a is None or b is None else (shown.format(a, b), holds(a, b))

        return evidence.judge((ours, theirs), figure)

    return judge


def lower_error(ours: str, theirs: str) -> Judge:
    """The first method's mean error is below the second's."""
    return by_both_scores(lambda score: compared(score, "{:.2f} against {:.2f}", lt, ours, theirs))


def smaller_deviation_by(score: Score) -> Judge:
    """TaMatch's error varies less over seeds than FixMatch's and FreeMatch's."""
    methods = ("tamatch", "fixmatch", "freematch")

    def judge(evidence: Evidence) -> Verdict:
        def figure(setting: Setting) -> tuple[str, bool | None]:
            errors = [[score(r) for r in evidence.of(m, setting)] for m in methods]
            if min(map(len, errors)) < len(SEEDS):
                return "", None
            ours, *others = map(stdev, errors)
            text = f"{ours:.2f} against {' and '.join(f'{o:.2f}' for o in others)}"
            return text, ours < min(others)

        return evidence.judge(methods, figure)

    return judge


smaller_deviation = by_both_scores(smaller_deviation_by)


def throughout(evidence: Evidence) -> Verdict:
    """TaMatch's KL to the truth is below FixMatch's in every eighth of the run after the first.

    In the first one p_model comes from its uniform start, the same for both.
    """

    def figure(setting: Setting) -> tuple[str, bool | None]:
        ours, theirs = (
            [in_eighths(r.kl_truth) for r in evidence.of(m, setting)] for m in OURS_AND_FIXMATCH
        )
        if not ours or not theirs:
            return "", None
        pairs = list(zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=True))
        lower = sum(mean(a) < mean(b) for a, b in pairs[1:])
        a, b = pairs[-1]
        text = f"lower in {lower} of {EIGHTHS - 1}, {mean(a):.4f} against {mean(b):.4f} nats"
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
    gaps = []
    for setting in settings:
        a, b = (evidence.mean(m, setting, score) for m in (ablation, "tamatch"))
        if a is not None and b is not None:
            gaps.append(a - b)
    return mean(gaps) if gaps else None


def costs_more(ablation: str, at: float) -> Judge:
    """An ablation costs more at this γ than at the other one."""
    here = [s for s in LONG_TAIL if s.options["gamma"] == at]
    there = [s for s in LONG_TAIL if s not in here]

    def judge_by(score: Score) -> Judge:
        def judge(evidence: Evidence) -> Verdict:
            a, b = (cost(evidence, ablation, settings, score) for settings in (here, there))
            finding, figures = None, NONE_YET
            if a is not None and b is not None:
                finding = "holds" if a > b else "does not hold"
                figures = f"{a:+.2f} points at γ {at:.0f}, {b:+.2f} at the other"
            return Verdict(evidence.so_far(finding, (ablation, "tamatch")), figures)

        return judge

    return by_both_scores(judge_by)


def ratio_near_one(evidence: Evidence) -> Verdict:
    def figure(setting: Setting) -> tuple[str, bool | None]:
        found = [r for r in evidence.of("tamatch", setting) if r.largest_ratio and r.r_max]
        if not found:
            return "", None
        curves = [r.largest_ratio.value for r in found if r.largest_ratio]
        peak, end = mean(map(max, curves)), mean(curve[-1] for curve in curves)
        bound = mean(r.r_max.value[-1] for r in found if r.r_max)
        text = f"largest r {peak:.2f} at its peak, {end:.2f} at the end, where r_max is {bound:.2f}"
        return text, end < NEAR_ONE

    return evidence.judge(("tamatch",), figure, lambda r: r.largest_ratio is not None)


def best_of_table_1(evidence: Evidence) -> Verdict:
    """TaMatch has the best Friedman rank and the lowest mean error, by the best tests."""
    plan = PLANS["usb"]
    cells = plan.cells("usb", scale=FULL)
    found = evidence.store.found(cells)
    if len(found) < len(cells):
        return Verdict(f"open: {len(cells) - len(found)} of {len(cells)} cells missing", NONE_YET)
    places = standings(own_errors(plan, found, "error_best"))
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
    said = f"the print holds it in {right} of {len(printed)} settings{ours}{lacks}"
    wrong = "; ".join(text for holds, text in printed if not holds)
    return Verdict(said, f"printed: not in {wrong}")


def best_errors(store: Store, method: str, setting: Setting) -> list[float]:
    """The errors of all seeds of full length in Table 1, at their best tests."""
    cells = [Cell("usb", setting, method, seed, FULL) for seed in SEEDS]
    return [best_error(result) for result in store.found(cells).values()]
