"""How the error of long runs moves on the way: where they are best, and what they end at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median

from tamatch.bench.cells import Cell
from tamatch.bench.results import Curve, Result
from tamatch.bench.tables import Grid, Page, Row

EIGHTHS = 8
NOTES = [
    "The error is the median over the tests of each eighth, KL the mean over the points of its "
    "curve. Where the error rises again, the best test lies before the end. A method without a "
    "target of its own is compared with equal shares."
]


def in_eighths(title: str, found: dict[Cell, Result]) -> Page:
    """A table for each run: eighths of its steps as columns."""
    header = ("", *(f"{i}/{EIGHTHS}" for i in range(1, EIGHTHS + 1)))
    return Page(title, [Grid(headline(c, r), header, rows(r)) for c, r in found.items()], NOTES)


def headline(cell: Cell, result: Result) -> str:
    assert result.best_step is not None  # CIFAR-10 has a test set
    return f"{cell.name}: best at step {result.best_step:,}"


def rows(result: Result) -> Sequence[Row]:
    steps = result.error.step[-1]
    lines = [
        ("error (%)", result.error, median, 2),
        ("KL of p_model to the truth", result.kl_truth, mean, 4),
    ]
    if result.kl_target is not None:
        lines.append(("KL of p_model to the target", result.kl_target, mean, 4))
    return [
        (name, *(shown(part, of, digits) for part in parts(curve, steps)))
        for name, curve, of, digits in lines
    ]


def shown(values: Sequence[float], of: Callable[[Sequence[float]], float], digits: int) -> str:
    return f"{of(values):.{digits}f}" if values else "–"


def parts(curve: Curve, steps: int) -> list[list[float]]:
    """The values of each eighth of a run of `steps` steps."""
    found: list[list[float]] = [[] for _ in range(EIGHTHS)]
    for step, value in zip(curve.step, curve.value, strict=True):
        found[min(EIGHTHS * (step - 1) // steps, EIGHTHS - 1)].append(value)
    return found
