"""The section on class balance: p_model against target and truth, strong and weak classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ..rules.choose import UNEQUAL_FACTOR
from .bias import Bias, biases, kl_curve, share_curve
from .classtables import ClassRow, bias_columns, bias_rows, gap_limit
from .curve import Line
from .folder import RunFiles
from .metrics import Log, Points
from .ranking import Ranking, rank
from .svg import legend, line_chart, small_chart
from .ticks import nice_ticks
from .trust import PoolScores
from .values import number, numbers, table
from .words import count, decimal, share

LEFT = 0.1  # of p_model's start: less is not told


@dataclass(frozen=True)
class Balance:
    """What the template shows of it; `rows` is empty where the method keeps no p_model."""

    rows: Ranking[ClassRow]
    columns: list[str]
    narrow: list[int]  # columns that a narrow screen leaves out, the bar among them
    truth_known: bool
    strong: int
    weak: int
    bar_end: str  # what a full bar stands for
    answer: str  # what the method did about the gaps
    start: str  # how much of p_model is still its start; empty if hardly any
    caution: str  # why the gaps may mislead; empty if there is no sign of it
    kl_chart: Markup
    legend: Markup
    charts: list[Markup]


def balance_of(run: RunFiles, names: Sequence[str]) -> Balance:
    """Rank the classes from weakest to strongest and draw their shares."""
    log, pool = run.metrics.of("train"), run.trust.pool if run.trust else None
    model, target = log.last_vector("p_model"), log.last_vector("p_target")
    truth = numbers(run.data.get("true_shares"))
    truth = truth if len(truth) == len(model) else []
    ranking = rank(biases(names, model, target, truth), key=lambda bias: bias.gap)
    columns = bias_columns(ranking, pool)
    spare = (["target"] if truth else []) + (["gap"] if "factor" in columns else [])
    kinds = [bias.kind for bias in ranking.everything]
    charts = [(bias.name, _share_lines(log, bias)) for bias in ranking.shown]
    return Balance(
        rows=bias_rows(ranking, pool),
        columns=columns,
        narrow=[columns.index(name) for name in spare if name in columns] + [len(columns)],
        truth_known=bool(truth),
        strong=kinds.count("strong"),
        weak=kinds.count("weak"),
        bar_end=decimal(100 * gap_limit(ranking.everything)),
        answer=_answer(pool),
        start=_start_left(run),
        caution="" if truth else _caution(target, numbers(run.data.get("labelled_shares"))),
        kl_chart=_kl_chart(log, truth),
        legend=legend([line for _, lines in charts for line in lines]),
        charts=_share_charts(charts),
    )


def _answer(pool: PoolScores | None) -> str:
    """One or two sentences on rescaling and weights; empty for a run that has not finished."""
    if pool is None or not pool.has_shares:
        return ""
    factor = "Predictions were multiplied by the factor, p_target / p_model, and renormalised."
    weight = "Each accepted pseudo-label was weighted by the weight of its class."
    said = [factor] * bool(pool.factors) + [weight] * bool(pool.weights)
    return " ".join(said) or "This method tracks these shares but does not use them."


def _start_left(run: RunFiles) -> str:
    """A slow average of a short run says more of where it began than of the model."""
    momentum = number(table(run.config.get("options")).get("lambda_model"))
    steps = max((row.step for row in run.metrics.of("train").rows), default=0)
    left = 0.0 if momentum is None or not 0 <= momentum <= 1 else momentum**steps
    if left < LEFT or not steps:
        return ""
    return (
        f"After {count(steps)} steps, {share(left)} of p_model is still its uniform start: what "
        "the model predicts is less even than p_model shows."
    )


def _caution(target: Sequence[float], labelled: Sequence[float]) -> str:
    """Equal shares of classes that have very unequal numbers of labels may be nobody's choice."""
    uniform = bool(target) and math.isclose(min(target), max(target), rel_tol=1e-3)
    fewest = min(labelled, default=0)
    if not uniform or fewest <= 0 or max(labelled) <= UNEQUAL_FACTOR * fewest:
        return ""
    return (
        "The target is uniform, but the labels are not: the most frequent class has "
        f"{max(labelled) / fewest:.0f} times as many as the rarest. If the unlabelled "
        "images are as unequal, these gaps mislead, and so does the target; --prior, --target "
        "labelled and --target adaptive set another."
    )


def _kl_chart(log: Log, truth: Sequence[float]) -> Markup:
    """How far the model's class shares are from the target and from the truth."""
    to_target, to_truth = kl_curve(log), kl_curve(log, truth) if truth else []
    if _coincide(to_target, to_truth):
        lines = [Line("KL(p_model ‖ truth), truth = target", to_target)]
    else:
        lines = [
            Line("KL(p_model ‖ truth)", to_truth),
            Line("KL(p_model ‖ target)", to_target, 2, "dashed"),
        ]
    note = "In nats; 0 means equal shares."
    return line_chart("Distance of the predicted class shares", lines, note=note)


def _share_lines(log: Log, bias: Bias) -> list[Line]:
    """p_model, target and truth of one class over steps."""
    model = share_curve(log, "p_model", bias.index)
    target = share_curve(log, "p_target", bias.index)
    truth = [] if bias.truth is None else [(step, 100 * bias.truth) for step, _ in model]
    if _coincide(target, truth):
        return [Line("p_model", model), Line("target = truth", target, 2, "dashed")]
    lines = [
        Line("p_model", model),
        Line("target", target, 2, "dashed"),
        Line("truth", truth, 8, "dotted"),
    ]
    return [line for line in lines if line.points]


def _share_charts(charts: Sequence[tuple[str, list[Line]]]) -> list[Markup]:
    """One small chart per class, all with the same axis."""
    values = [y for _, lines in charts for line in lines for _, y in line.points]
    finite = [y for y in values if math.isfinite(y)] or [0.0]
    ticks = nice_ticks(min(finite), max(finite), 2)
    ends = (ticks[0], ticks[-1])
    return [small_chart(name, lines, unit=" %", y_range=ends) for name, lines in charts]


def _coincide(a: Points, b: Points) -> bool:
    """Whether two curves would lie on each other."""
    return len(a) == len(b) > 0 and all(
        math.isclose(one[1], other[1], rel_tol=1e-4) for one, other in zip(a, b, strict=True)
    )
