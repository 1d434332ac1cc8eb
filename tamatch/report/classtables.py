"""Tables with one row per class: accuracy beside the baseline, and strong and weak classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from .bars import bar, gap_bar
from .bias import Bias
from .facts import Figures
from .ranking import Ranking, rank
from .trust import ClassScores, Held, PoolScores
from .words import UNKNOWN, count, percent, points, share


@dataclass(frozen=True)
class ClassRow:
    """A class name, the cells beside it, and a bar that shows them."""

    name: str
    cells: tuple[str, ...]
    bar: Markup


def accuracy_columns(baseline: Figures | None, held: Held | None) -> list[str]:
    """Headers of the cells that `accuracy_rows` writes."""
    counted = ["found", "precision", "correct"] if held is not None and held.classes else []
    return ["labels", "recall", *counted, *(["baseline", "gain"] if baseline else [])]


def accuracy_rows(
    run: Figures, baseline: Figures | None, labels: Sequence[int], held: Held | None
) -> Ranking[ClassRow]:
    """From the worst class to the best: labels, recall, precision, baseline, difference."""
    other = (
        {} if baseline is None else dict(zip(baseline.classes, baseline.per_class, strict=False))
    )
    scored = list(zip(run.classes, run.per_class, strict=False))
    order = rank(range(len(scored)), key=lambda index: scored[index][1])
    rows = []
    for index in order.everything:
        name, accuracy = scored[index]
        beside = other.get(name)
        cells = [count(labels[index]) if index < len(labels) else UNKNOWN, percent(accuracy)]
        if held is not None and held.classes:
            cells += (
                _count_cells(held.classes[index]) if index < len(held.classes) else [UNKNOWN] * 3
            )
        if baseline is not None:
            cells += [percent(beside), points(None if beside is None else accuracy - beside)]
        rows.append(ClassRow(name, tuple(cells), bar(accuracy, beside)))
    return Ranking(rows)


def _count_cells(one: ClassScores) -> list[str]:
    """Found of how many, precision, right of how many."""
    found, right = (f"{count(one.right)} of {count(n)}" for n in (one.images, one.predicted))
    return [found, percent(one.precision), right]


def gap_limit(biases: Sequence[Bias]) -> float:
    """Where the bars of the gaps end: at least half a mean share, so that small gaps look small."""
    return max([abs(bias.gap) for bias in biases] + [0.5 / max(len(biases), 1)])


def bias_columns(ranking: Ranking[Bias], pool: PoolScores | None) -> list[str]:
    """Headers of the cells that `bias_rows` writes."""
    known = ranking.everything[:1]
    done = [name for name, values in _answers(pool, len(ranking.everything)) if values]
    target = ["target"] if any(bias.target is not None for bias in known) else []
    truth = ["truth"] if any(bias.truth is not None for bias in known) else []
    return ["kind", "p_model", *target, *truth, "gap", *done]


def _answers(pool: PoolScores | None, classes: int) -> list[tuple[str, list[float]]]:
    """What the method did about each class; empty lists where it did nothing."""
    if pool is None:
        return []
    given = (("factor", pool.factors), ("weight", pool.weights))
    return [(name, values if len(values) == classes else []) for name, values in given]


def bias_rows(ranking: Ranking[Bias], pool: PoolScores | None) -> Ranking[ClassRow]:
    """From the weakest class to the strongest: kind, p_model, target, truth, gap, answers."""
    limit = gap_limit(ranking.everything)
    digits = len(str(max(len(ranking.everything) - 1, 1)))  # more classes, smaller shares
    done = _answers(pool, len(ranking.everything))
    rows = []
    for bias in ranking.everything:
        known = [value for value in (bias.target, bias.truth) if value is not None]
        shares = [share(value, digits) for value in (bias.model, *known)]
        answers = [f"{values[bias.index]:.3f}" for _, values in done if values]
        cells = (bias.kind, *shares, points(100 * bias.gap, digits + 1), *answers)
        rows.append(ClassRow(bias.name, cells, gap_bar(bias.gap, limit)))
    return Ranking(rows)


def label_counts(shares: Sequence[float], labelled: int | None) -> list[int]:
    """Labelled images of each class, from their shares."""
    if labelled is None or any(not math.isfinite(value) for value in shares):
        return []
    return [round(value * labelled) for value in shares]
