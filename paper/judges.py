"""Judges of the paper's claims: each makes a verdict, with its figures, from the evidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from operator import gt, lt
from statistics import mean, stdev

from tamatch.bench import published
from tamatch.bench.cells import FULL, SEEDS, Cell, Setting
from tamatch.bench.order import standings
from tamatch.bench.plans import PLANS
from tamatch.bench.rank import by_seed, ranked_errors, shared_seeds
from tamatch.bench.results import Curve, Result, Store
from tamatch.bench.tables import spread

from .eighths import EIGHTHS, parts
from .evidence import (
    ANY_SCORE,
    Evidence,
    Figures,
    Judge,
    Verdict,
    few,
    in_settings,
    short,
)

NOISE = 0.9  # points by which the errors of two runs of one seed differ (docs/log.md)
ALIKE = 5.0  # utilizations that differ by fewer points are "roughly the same"
NEAR_ONE = 1.1  # scaling factors below this change little
OURS_AND_FIXMATCH = ("tamatch", "fixmatch")

Score = Callable[[Result], float]
Where = Callable[[Setting], bool]


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


def decided(holds: bool, difference: float, noise: float) -> bool | None:
    """None where a difference is within the noise."""
    return None if noise and abs(difference) <= noise else holds


def in_words(held: bool | None, noise: float) -> str:
    if held is None:
        return f"open (within the noise of {noise:.2f})"
    return f"{'holds' if held else 'does not hold'} (noise {noise:.2f})"


def noise_of_deviations(runs: int) -> float:
    """By how much two standard deviations over this many runs differ by chance alone."""
    return NOISE / math.sqrt(runs - 1)


def compared(
    value: Callable[[Result], float],
    shown: str,
    holds: Callable[[float, float], bool],
    ours: str = "tamatch",
    theirs: str = "fixmatch",
    noise: float = 0.0,
) -> Judge:
    """How the means of two methods stand to each other: open where they differ within the noise.

    `shown` is the text around both means and, where it has more places, their difference and its
    noise; `noise` is that of a pair of single runs.
    """

    def figure(found: list[tuple[Result, ...]]) -> tuple[str, bool | None]:
        pairs = [(value(a), value(b)) for a, b in found]
        a, b = (mean(values) for values in zip(*pairs, strict=True))
        of_mean = noise / math.sqrt(len(pairs))
        text = shown.format(a, b, spread([x - y for x, y in pairs], "+.2f"), of_mean)
        return text, decided(holds(a, b), a - b, of_mean)

    return lambda evidence: evidence.judge((ours, theirs), figure)


def lower_error(ours: str, theirs: str) -> Judge:
    """The first method's mean error is below the second's."""
    shown = "{:.2f} against {:.2f}, {}, noise {:.2f}"
    return by_both_scores(lambda score: compared(score, shown, lt, ours, theirs, NOISE))


def smaller_deviation_by(score: Score) -> Judge:
    """TaMatch's error varies less over seeds than FixMatch's and FreeMatch's."""

    def figure(found: list[tuple[Result, ...]]) -> tuple[str, bool | None]:
        ours, *others = (stdev(map(score, results)) for results in zip(*found, strict=True))
        noise = noise_of_deviations(len(found))
        text = f"{ours:.2f} against {' and '.join(f'{o:.2f}' for o in others)}, noise {noise:.2f}"
        return text, decided(ours < min(others), ours - min(others), noise)

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


def having(option: str, value: float) -> Where:
    """The settings in which an option has this value."""
    return lambda setting: setting.options[option] == value


def costs_more(ablation: str, where: Where) -> Judge:
    """An ablation costs more in some of the settings than in the others.

    Its cost is how many points its error is above TaMatch's. The means of both halves of the
    settings are compared, over those that have both methods.
    """

    def judge_by(score: Score) -> Judge:
        def judge(evidence: Evidence) -> Verdict:
            shown: Figures = {}
            costs: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
            for setting in evidence.settings:
                if pairs := evidence.by_seed((ablation, "tamatch"), setting):
                    gaps = [score(a) - score(b) for a, b in pairs]
                    shown[short(setting)] = f"{spread(gaps, '+.2f')}{few(pairs)}"
                    costs[where(setting)].append((mean(gaps), len(gaps)))
            finding = None
            if costs[True] and costs[False]:
                here, there = (mean(gap for gap, _ in costs[side]) for side in (True, False))
                noise = NOISE * math.hypot(*(x for side in costs.values() for x in shares(side)))
                held = decided(here > there, here - there, noise)
                finding = in_words(held, noise)
            said = evidence.so_far(finding, (ablation, "tamatch"))
            return Verdict(said, {ANY_SCORE: shown} if shown else {})

        return judge

    return by_both_scores(judge_by)


def shares(costs: list[tuple[float, int]]) -> list[float]:
    """How much of a pair's noise each setting adds to the mean over settings."""
    return [1 / (len(costs) * math.sqrt(pairs)) for _, pairs in costs]


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


def best_of_table_1(evidence: Evidence) -> Verdict:
    """The same in Table 1 itself."""
    return best_of_all(Evidence(evidence.store, "usb", FULL))


def best_of_all(evidence: Evidence) -> Verdict:
    """TaMatch has the best Friedman rank and the lowest mean error, by the best tests.

    Settings in which a method lacks results are left out, as in `bench rank`.
    """
    plan = PLANS[evidence.bench]
    cells = plan.cells(evidence.bench, scale=evidence.scale)
    found = evidence.store.results(cells)
    by = by_seed(plan, found, "error_best")
    errors, _ = ranked_errors(plan, by)
    places = standings(errors)
    said = ""
    if (ours := places.pop("tamatch", None)) and places:
        rank, error = (min(p[i] for p in places.values()) for i in (0, 1))
        runs = sum(len(shared_seeds(by, setting)) for setting in errors["tamatch"])
        noise = NOISE / math.sqrt(runs)
        held = decided(ours.rank < rank and ours.error < error, ours.error - error, noise)
        said = (
            f"{in_words(held, noise)}: rank {ours.rank:.2f}, the best other {rank:.2f}; "
            f"mean error {ours.error:.2f}, the lowest other {error:.2f}"
        )
    if len(found) == len(cells):
        return Verdict(said)
    lacks = f"open: {len(cells) - len(found)} of {len(cells)} cells missing"
    return Verdict(f"{lacks}; so far {said}" if said else lacks)


def smaller_deviations_of_table_1(evidence: Evidence) -> Verdict:
    """TaMatch's deviation is below FixMatch's: by our runs, and by the print itself."""
    plan = PLANS["usb"]
    printed: list[tuple[bool, str]] = []
    held: list[bool | None] = []
    there = 0
    for setting in plan.settings:
        print_pair = [published.TABLE_1[m][setting.name].std for m in OURS_AND_FIXMATCH]
        a, b = (std if std is not None else math.inf for std in print_pair)
        printed.append((a < b, f"{setting.name} ({a} against {b})"))
        errors = [best_errors(evidence.store, m, setting) for m in OURS_AND_FIXMATCH]
        there += sum(map(len, errors))
        if min(map(len, errors)) == len(SEEDS):
            a, b = map(stdev, errors)
            held.append(decided(a < b, a - b, noise_of_deviations(len(SEEDS))))
    total = len(OURS_AND_FIXMATCH) * len(plan.settings) * len(SEEDS)
    ours = f"; our runs: {in_settings(held)}" if held else ""
    lacks = "" if there == total else f"; open: {total - there} of {total} cells missing"
    right = sum(holds for holds, _ in printed)
    wrong = " and ".join(text for holds, text in printed if not holds)
    return Verdict(
        f"holds in print in {right} of {len(printed)} settings, not in {wrong}{ours}{lacks}"
    )


def best_errors(store: Store, method: str, setting: Setting) -> list[float]:
    """The errors of all seeds of full length in Table 1, at their best tests."""
    cells = [Cell("usb", setting, method, seed, FULL) for seed in SEEDS]
    return [best_error(result) for result in store.results(cells).values()]
