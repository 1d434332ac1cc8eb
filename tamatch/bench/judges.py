"""Judges of the paper's claims: each makes a verdict, with its figures, from the evidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from operator import gt, lt
from statistics import mean, stdev

from .cells import SEEDS
from .curves import Curve
from .eighths import EIGHTHS, parts
from .evidence import ANY_SCORE, Evidence, Figures, Judge, Verdict, few, short
from .record import Result
from .tables import spread

ALIKE = 5.0  # utilizations that differ by fewer points are "roughly the same"
NEAR_ONE = 1.1  # scaling factors below this change little
OURS_AND_FIXMATCH = ("tamatch", "fixmatch")

Score = Callable[[Result], float]


def last_error(result: Result) -> float:
    assert result.error_last is not None  # CIFAR-10 has a test set
    return result.error_last


def best_error(result: Result) -> float:
    assert result.error_best is not None
    return result.error_best


SCORES: dict[str, Score] = {"last step": last_error, "best test": best_error}


def by_both_scores(judge_by: Callable[[Score], Judge]) -> Judge:
    """The errors at the last step, and at the best test: the paper does not say which it prints."""

    def judge(evidence: Evidence) -> Verdict:
        last, best = (judge_by(score)(evidence) for score in SCORES.values())
        alike = last.said == best.said
        said = last.said if alike else f"{last.said}; at the best test {best.said}"
        named = zip(SCORES, (last, best), strict=True)
        return Verdict(said, {name: f for name, v in named for f in v.figures.values()})

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


def costs_more(ablation: str, option: str, at: float) -> Judge:
    """An ablation costs more where an option of the settings has this value than elsewhere.

    Its cost is how many points its error is above TaMatch's. The means of both halves of the
    settings are compared, over those that have both methods.
    """

    def judge_by(score: Score) -> Judge:
        def judge(evidence: Evidence) -> Verdict:
            shown: Figures = {}
            here: list[float] = []
            there: list[float] = []
            for setting in evidence.settings:
                if pairs := evidence.by_seed((ablation, "tamatch"), setting):
                    gaps = [score(a) - score(b) for a, b in pairs]
                    shown[short(setting)] = f"{spread(gaps, '+.2f')}{few(pairs)}"
                    (here if setting.options[option] == at else there).append(mean(gaps))
            finding = None
            if here and there:
                finding = "holds" if mean(here) > mean(there) else "does not hold"
            said = evidence.so_far(finding, (ablation, "tamatch"))
            return Verdict(said, {ANY_SCORE: shown} if shown else {})

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

    def has_curves(result: Result) -> bool:  # the first runs did not keep them
        return result.largest_ratio is not None and result.r_max is not None

    return evidence.judge(("tamatch",), figure, has_curves)
