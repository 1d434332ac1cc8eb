"""Verdicts on the paper's claims from the results there are, each with the figures behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import gt, lt
from statistics import mean, stdev

from . import published
from .cells import SEEDS, Cell
from .curves import Curve
from .record import Result
from .settings import LONG_TAIL, Setting
from .store import Store

ALIKE = 5.0  # utilizations that differ by fewer points are "roughly the same"
NEAR_ONE = 1.1  # scaling factors below this change little


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
    ) -> Verdict:
        """One figure a setting and whether the claim holds there; open while cells are missing."""
        shown, held = [], []
        for setting in LONG_TAIL:
            text, holds = figure(setting)
            if holds is not None:
                shown.append(f"{short(setting)}: {text}")
                held.append(holds)
        finding = f"holds in {sum(held)} of {len(held)} settings" if held else None
        return Verdict(self.so_far(finding, methods), "; ".join(shown) or "none yet")

    def so_far(self, finding: str | None, methods: Sequence[str]) -> str:
        """A finding with what it lacks: the cells of these methods that are missing."""
        total = len(methods) * len(LONG_TAIL) * len(SEEDS)
        there = sum(len(self.of(method, setting)) for method in methods for setting in LONG_TAIL)
        lacks = f"open: {total - there} of {total} cells missing"
        if finding is None:
            return lacks
        return finding if there == total else f"{lacks}; so far {finding}"


Judge = Callable[[Evidence], Verdict]


def short(setting: Setting) -> str:
    options = setting.options
    heads = f"{options['head_labelled']}/{options['head_unlabelled']}"
    return f"{heads}, γ {options['gamma']:.0f}"


def last_error(result: Result) -> float:
    assert result.error_last is not None  # CIFAR-10 has a test set
    return result.error_last


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
    """The first method's mean error at the last step is below the second's."""
    return compared(last_error, "{:.2f} against {:.2f}", lt, ours, theirs)


def smaller_deviation(evidence: Evidence) -> Verdict:
    """TaMatch's error varies less over seeds than FixMatch's and FreeMatch's."""
    methods = ("tamatch", "fixmatch", "freematch")

    def figure(setting: Setting) -> tuple[str, bool | None]:
        errors = [[last_error(r) for r in evidence.of(m, setting)] for m in methods]
        if min(map(len, errors)) < len(SEEDS):
            return "", None
        ours, *others = map(stdev, errors)
        return f"{ours:.2f} against {' and '.join(f'{o:.2f}' for o in others)}", ours < min(others)

    return evidence.judge(methods, figure)


def late(curve: Curve) -> float:
    """The mean over the second half of a run."""
    return mean(curve.value[len(curve.value) // 2 :])


def worst_class(result: Result) -> float:
    return min(v for v in result.per_class_accuracy or [] if v is not None)


lower_kl = compared(lambda r: late(r.kl_truth), "{:.4f} against {:.4f} nats", lt)
same_utilization = compared(
    lambda r: 100 * late(r.utilization), "{:.1f} against {:.1f} %", lambda a, b: abs(a - b) < ALIKE
)
better_worst_class = compared(worst_class, "{:.1f} against {:.1f} %", gt)


def cost(evidence: Evidence, ablation: str, settings: Iterable[Setting]) -> float | None:
    """How many points an ablation's error is above TaMatch's, over the settings that have both."""
    gaps = []
    for setting in settings:
        a, b = (evidence.mean(m, setting, last_error) for m in (ablation, "tamatch"))
        if a is not None and b is not None:
            gaps.append(a - b)
    return mean(gaps) if gaps else None


def costs_more(ablation: str, at: float) -> Judge:
    """An ablation costs more at this γ than at the other one."""

    def judge(evidence: Evidence) -> Verdict:
        here = [s for s in LONG_TAIL if s.options["gamma"] == at]
        there = [s for s in LONG_TAIL if s not in here]
        a, b = (cost(evidence, ablation, settings) for settings in (here, there))
        finding, figures = None, "none yet"
        if a is not None and b is not None:
            finding = "holds" if a > b else "does not hold"
            figures = f"{a:+.2f} points at γ {at:.0f}, {b:+.2f} at the other"
        return Verdict(evidence.so_far(finding, (ablation, "tamatch")), figures)

    return judge


def ratio_near_one(evidence: Evidence) -> Verdict:
    def figure(setting: Setting) -> tuple[str, bool | None]:
        found = [r for r in evidence.of("tamatch", setting) if r.largest_ratio and r.r_max]
        if not found:
            return "", None
        begin, end = (
            mean(r.largest_ratio.value[i] for r in found if r.largest_ratio) for i in (1, -1)
        )
        bound = mean(r.r_max.value[-1] for r in found if r.r_max)
        text = f"largest r {begin:.2f} early, {end:.2f} at the end, where r_max is {bound:.2f}"
        return text, end < NEAR_ONE

    return evidence.judge(("tamatch",), figure)


def printed_deviations(evidence: Evidence) -> Verdict:
    """The paper's own Table 1 says whether TaMatch's deviation is below FixMatch's."""
    ours, theirs = published.TABLE_1["tamatch"], published.TABLE_1["fixmatch"]
    pairs = {s: (ours[s].std, theirs[s].std) for s in ours}
    held = [s for s, (a, b) in pairs.items() if a is not None and b is not None and a < b]
    wrong = [f"{s} {a} against {b}" for s, (a, b) in pairs.items() if s not in held]
    return Verdict(
        f"the print holds it in {len(held)} of {len(pairs)} settings; open: no cell of ours",
        f"printed: not in {'; '.join(wrong)}",
    )


def out_of_reach(cells: int) -> Judge:
    """Of tables whose pre-trained weights are not included."""
    return lambda evidence: Verdict(f"open: {cells} of {cells} cells missing", "none yet")
