"""The sections on the unlabelled images: class balance, and how many are used.

A class is strong where its share p_model(c) of the predictions is above its true share of the
unlabelled images, and weak where it is below: the paper's confirmation bias.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ..judge.differences import kl
from ..rules.choose import UNEQUAL_FACTOR
from .album import album, first_rows
from .classes import ClassRow, Ranking, rank
from .folder import RunFiles
from .metrics import Log, Points
from .svg import Across, Line, bar, gap_bar, legend, line_chart, nice_ticks, small_chart
from .trust import PoolScores
from .words import count, decimal, number, numbers, percent, points, share

LEFT = 0.1  # share of p_model's initial value; less is not mentioned


@dataclass(frozen=True)
class Bias:
    """How far the model's share of a class, p_model(c), lies from its reference share."""

    index: int
    name: str
    model: float
    target: float | None
    truth: float | None
    reference: float  # the truth where it is known, else the target

    @property
    def gap(self) -> float:
        """p_model(c) minus the reference."""
        return self.model - self.reference

    @property
    def kind(self) -> str:
        """Strong: p_model(c) above the reference. Weak: below."""
        return "strong" if self.gap > 0 else "weak" if self.gap < 0 else "even"


def balance_of(run: RunFiles) -> dict[str, Any]:
    """What the template shows of class balance; without a p_model, `rows` is empty."""
    log, pool = run.metrics.of("train"), run.trust.pool
    model, target = log.last_vector("p_model"), log.last_vector("p_target")
    truth = numbers(run.data.get("true_shares"))
    truth = truth if len(truth) == len(model) else []
    ranking = rank(biases(run.figures.classes, model, target, truth), key=lambda bias: bias.gap)
    # Where the bars end: at least half a mean share, so that small gaps look small.
    gaps = [abs(bias.gap) for bias in ranking.everything]
    limit = max([*gaps, 0.5 / max(len(gaps), 1)])
    columns, rows = bias_table(ranking, pool, limit)
    spare = (["target"] if truth else []) + (["gap"] if "factor" in columns else [])
    kinds = [bias.kind for bias in ranking.everything]
    charts = [(bias.name, _share_lines(log, bias)) for bias in ranking.shown]
    # How much of p_model is still its initial value, as in short runs with a slow average.
    steps = max((row.step for row in log.rows), default=0)
    momentum = number(run.options.get("lambda_model"))
    left = 0.0 if momentum is None or not 0 <= momentum <= 1 else momentum**steps
    return {
        "rows": rows,
        "columns": columns,
        # columns that a narrow screen leaves out, the bar among them
        "narrow": [columns.index(name) for name in spare if name in columns] + [len(columns)],
        "truth_known": bool(truth),
        "strong": kinds.count("strong"),
        "weak": kinds.count("weak"),
        "bar_end": decimal(100 * limit),  # what a full bar stands for
        "steps": steps,
        "start_left": left if left >= LEFT and steps else None,
        "unequal": None if truth else _unequal(target, numbers(run.data.get("labelled_shares"))),
        "kl_chart": _kl_chart(log, truth),
        "legend": legend([line for _, lines in charts for line in lines]),
        "charts": _share_charts(charts),
    }


def biases(
    names: Sequence[str], model: Sequence[float], target: Sequence[float], truth: Sequence[float]
) -> list[Bias]:
    """Strong and weak classes; empty if neither truth nor target fits p_model."""
    reference = truth if len(truth) == len(model) else target
    if not model or len(reference) != len(model) or len(names) < len(model):
        return []
    rows = zip_longest(
        names[: len(model)], model, target[: len(model)], truth[: len(model)], reference
    )
    return [Bias(index, *row) for index, row in enumerate(rows)]


def bias_table(
    ranking: Ranking[Bias], pool: PoolScores | None, limit: float
) -> tuple[list[str], Ranking[ClassRow]]:
    """Headers of the cells, and the classes from the weakest to the strongest."""
    known = ranking.everything[:1]
    classes = len(ranking.everything)
    columns = ["kind", "p_model"]
    columns += ["target"] * any(bias.target is not None for bias in known)
    columns += ["truth"] * any(bias.truth is not None for bias in known)
    answers = {} if pool is None else {"factor": pool.factors or [], "weight": pool.weights or []}
    answers = {name: values for name, values in answers.items() if 0 < len(values) == classes}
    digits = len(str(max(classes - 1, 1)))  # more classes, smaller shares
    rows = []
    for bias in ranking.everything:
        shares = [bias.model, *(v for v in (bias.target, bias.truth) if v is not None)]
        cells = (
            bias.kind,
            *(share(value, digits) for value in shares),
            points(100 * bias.gap, digits + 1),
            *(f"{values[bias.index]:.3f}" for values in answers.values()),
        )
        rows.append(ClassRow(bias.name, cells, gap_bar(bias.gap, limit)))
    return [*columns, "gap", *answers], Ranking(rows)


def _unequal(target: Sequence[float], labelled: Sequence[float]) -> float | None:
    """Labels of the most frequent class over those of the rarest, if a uniform target misleads."""
    uniform = bool(target) and math.isclose(min(target), max(target), rel_tol=1e-3)
    fewest = min(labelled, default=0)
    if not uniform or fewest <= 0 or max(labelled) <= UNEQUAL_FACTOR * fewest:
        return None
    return max(labelled) / fewest


def _kl_chart(log: Log, truth: Sequence[float]) -> Markup:
    """How far the model's class shares are from the target and from the truth."""
    rows = [row for row in log.rows if "p_model" in row.vectors]
    models = [(row.step, row.vectors["p_model"], row.vectors.get("p_target", [])) for row in rows]
    to_target: Points = [(step, kl(model, target)) for step, model, target in models]
    to_truth: Points = [(step, kl(model, truth)) for step, model, _ in models] if truth else []
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
    model, target = (_share_curve(log, name, bias.index) for name in ("p_model", "p_target"))
    truth = [] if bias.truth is None else [(step, 100 * bias.truth) for step, _ in model]
    if _coincide(target, truth):
        return [Line("p_model", model), Line("target = truth", target, 2, "dashed")]
    lines = [
        Line("p_model", model),
        Line("target", target, 2, "dashed"),
        Line("truth", truth, 8, "dotted"),
    ]
    return [line for line in lines if line.points]


def _share_curve(log: Log, name: str, index: int) -> Points:
    """One class's entry of a per-class vector over steps, in percent."""
    return [
        (row.step, 100 * row.vectors[name][index])
        for row in log.rows
        if index < len(row.vectors.get(name, ()))
    ]


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


def usage_of(log: Log, names: Sequence[str], pool: PoolScores | None, run: Path) -> dict[str, Any]:
    """What the template shows of their use; anything the method does not log is empty."""
    never = pool.never_accepted if pool else None
    pictures = first_rows(run / "never_accepted.csv") if never else []
    curves = [Line(name, utilization_curve(log, index)) for index, name in enumerate(names)]
    ranking = rank([line for line in curves if line.points], key=_newest)
    rows = [
        ClassRow(line.name, (percent(_newest(line)),), bar(_newest(line)))
        for line in ranking.everything
    ]
    return {
        "used_chart": line_chart(
            "Share of unlabelled images used",
            [Line("all classes", log.curve("used", 100))],
            note="Accepted pseudo-labels over batch size.",
            unit=" %",
        ),
        "weight_chart": _weight_chart(log),
        "charts": [
            small_chart(line.name, [line], unit=" %", y_range=(0, 100)) for line in ranking.shown
        ],
        "rows": Ranking(rows),
        "sweep_chart": _sweep_chart(pool) if pool else Markup(""),
        "sweep": _sweep(pool) if pool and pool.sweep else [],
        "never": never,
        "album": album("never_accepted", pictures, run),
    }


def utilization_curve(log: Log, index: int) -> Points:
    """Accepted over predicted, in percent, of one class; NaN where it was never predicted."""
    curve: Points = []
    for row in log.rows:
        used = row.vectors.get("used_by_class", [])
        predicted = row.vectors.get("predicted_by_class", [])
        if index < min(len(used), len(predicted)):
            ratio = used[index] / predicted[index] if predicted[index] > 0 else math.nan
            curve.append((row.step, 100 * ratio))
    return curve


def _newest(line: Line) -> float:
    return math.nan if line.last is None else line.last


def _weight_chart(log: Log) -> Markup:
    """The curves break where no pseudo-label was accepted."""
    unused = {row.step for row in log.rows if row.scalars.get("used") == 0}
    mean, largest = (
        [(step, math.nan if step in unused else value) for step, value in log.curve(name)]
        for name in ("weight", "max_weight")
    )
    lines = [Line("mean", mean), Line("largest", largest, 2, "dashed")]
    note = "1 is unweighted. The axis is scaled to the run after its first tenth."
    return line_chart("Weight of accepted pseudo-labels", lines, note=note, fit="settled")


def _sweep(pool: PoolScores) -> list[tuple[str, ...]]:
    """Header and rows of what other thresholds would accept."""
    known = any(level.precision is not None for level in pool.sweep)
    rows = [("threshold τ", "used", "images", *["correct"] * known)]
    for level in pool.sweep:
        own = " (this run)" if level.tau == pool.tau else ""
        right = [share(level.precision)] * known
        rows.append((f"{level.tau:g}{own}", share(level.used), count(level.images), *right))
    return rows


def _sweep_chart(pool: PoolScores) -> Markup:
    right = [
        (one.tau, math.nan if one.precision is None else 100 * one.precision) for one in pool.sweep
    ]
    lines = [
        Line("used", [(level.tau, 100 * level.used) for level in pool.sweep]),
        Line("of these, correct", right, 3, "dashed"),
    ]
    return line_chart(
        "What other thresholds would accept",
        lines,
        note="Of the unlabelled images without augmentation, by the net at the end of training.",
        unit=" %",
        across=Across("threshold τ"),
    )
