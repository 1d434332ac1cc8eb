"""Orders of methods: their Friedman ranks, and how far two orders agree."""

from __future__ import annotations

from collections.abc import Container, Mapping
from statistics import mean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .cells import Plan, Setting

Floats = npt.NDArray[np.float64]
Errors = Mapping[str, Mapping[str, float]]  # by method, then by setting

LEAST = 8  # methods: of fewer, an order says little, and a resample may be one method alone
RESAMPLES, SEED = 2000, 0
TAU_RULE = (
    "Kendall's τ (τ-b) is 1 for equal orders, 0 for unrelated ones and -1 for opposite ones. Its "
    f"interval holds 95 % of {RESAMPLES:,} bootstrap resamples of the methods (seed {SEED}). "
    f"Fewer than {LEAST} methods are not compared."
)


class Standing(NamedTuple):
    """A method's place among the others."""

    rank: float
    error: float
    settings: int


def standings(errors: Errors) -> dict[str, Standing]:
    """Mean rank and mean error of each method that has a value, the best rank first."""
    columns = {setting for row in errors.values() for setting in row}
    values = {c: [row[c] for row in errors.values() if c in row] for c in columns}
    found = {
        method: Standing(
            mean(rank(row[c], values[c]) for c in columns if c in row), mean(row.values()), len(row)
        )
        for method, row in errors.items()
        if row
    }
    return dict(sorted(found.items(), key=lambda item: item[1].rank))


def rank(value: float, values: list[float]) -> float:
    """The mean of the places that a value and its equals take, from 1."""
    return sum(v < value for v in values) + (1 + sum(v == value for v in values)) / 2


class Agreement(NamedTuple):
    """Kendall's τ of two orders of so many methods, and its interval."""

    methods: int
    tau: float
    low: float
    high: float


def agreement(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Agreement | None:
    """How the methods that both have are ordered by each; None if they are too few."""
    shared = [method for method in theirs if method in ours]
    if len(shared) < LEAST:
        return None
    from scipy.stats import bootstrap  # type: ignore[import-untyped]

    pair = [ours[method] for method in shared], [theirs[method] for method in shared]
    found = bootstrap(
        pair, tau, paired=True, vectorized=True, n_resamples=RESAMPLES, method="percentile",
        rng=SEED,
    ).confidence_interval  # fmt: skip
    return Agreement(len(shared), float(tau(*pair)), float(found.low), float(found.high))


def tau(a: npt.ArrayLike, b: npt.ArrayLike, axis: int = -1) -> Floats:
    """Kendall's τ-b of the last axis; 0 where all methods are equal and so have no order."""
    x, y = (np.sign(v[..., None] - v[..., None, :]) for v in map(np.asarray, (a, b)))
    pairs = ((x, y), (x, x), (y, y))  # each two methods are met twice
    agreeing, ordered_x, ordered_y = ((s * t).sum((-2, -1)) / 2 for s, t in pairs)
    with np.errstate(invalid="ignore"):
        found: Floats = agreeing / np.sqrt(ordered_x) / np.sqrt(ordered_y)
    return np.clip(np.nan_to_num(found), -1, 1)


def agreements(plan: Plan, errors: Errors) -> dict[str, Agreement]:
    """How far our methods and the printed ones agree, by what they are ordered by.

    By the errors in each setting, and by the ranks over those where all of ours have a printed
    error: elsewhere, the ranks would be among other methods.
    """
    printed = printed_means(plan, errors)
    found = {
        s.title: agreement(column(errors, s.name), column(printed, s.name)) for s in plan.settings
    }
    if len(shared := in_print(plan, errors)) > 1:
        names = {setting.name for setting in shared}
        found[f"Friedman rank over {' and '.join(s.title for s in shared)}"] = agreement(
            ranks(errors, names), ranks(printed, names)
        )
    return {title: one for title, one in found.items() if one is not None}


def printed_means(plan: Plan, methods: Container[str]) -> Errors:
    """The printed errors of these methods, where there is a number."""
    return {
        method: {s: cell.mean for s, cell in row.items() if cell.mean is not None}
        for method, row in (plan.printed or {}).items()
        if method in methods
    }


def in_print(plan: Plan, errors: Errors) -> list[Setting]:
    """The settings in which every method that has an error has a printed one."""
    printed = printed_means(plan, errors)
    return [
        setting for setting in plan.settings
        if (own := column(errors, setting.name))
        and own.keys() <= column(printed, setting.name).keys()
    ]  # fmt: skip


def column(errors: Errors, setting: str) -> dict[str, float]:
    """The errors of a setting, by method."""
    return {method: row[setting] for method, row in errors.items() if setting in row}


def ranks(errors: Errors, settings: Container[str]) -> dict[str, float]:
    """The mean rank of each method over some of the settings."""
    kept = {m: {s: e for s, e in row.items() if s in settings} for m, row in errors.items()}
    return {method: standing.rank for method, standing in standings(kept).items()}
