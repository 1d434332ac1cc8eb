"""Judges of what the paper says about Table 1, by the runs of that table and by its print."""

from __future__ import annotations

import math
from statistics import stdev

from . import published
from .cells import SEEDS, Cell
from .evidence import Evidence, Verdict
from .judges import OURS_AND_FIXMATCH, best_error
from .plans import PLANS
from .rank import by_seed, own_errors, standings
from .scale import FULL
from .settings import Setting
from .store import Store


def best_of_table_1(evidence: Evidence) -> Verdict:
    """TaMatch has the best Friedman rank and the lowest mean error, by the best tests."""
    plan = PLANS["usb"]
    cells = plan.cells("usb", scale=FULL)
    found = evidence.store.results(cells)
    if len(found) < len(cells):
        return Verdict(f"open: {len(cells) - len(found)} of {len(cells)} cells missing")
    places = standings(own_errors(by_seed(plan, found, "error_best")))
    ours, others = places["tamatch"], [p for name, p in places.items() if name != "tamatch"]
    rank, error = min(p.rank for p in others), min(p.error for p in others)
    said = "holds" if ours.rank < rank and ours.error < error else "does not hold"
    return Verdict(
        f"{said}: rank {ours.rank:.2f}, the best other {rank:.2f}; "
        f"mean error {ours.error:.2f}, the lowest other {error:.2f}"
    )


def smaller_deviations_of_table_1(evidence: Evidence) -> Verdict:
    """TaMatch's deviation is below FixMatch's: by our runs, and by the print itself."""
    plan = PLANS["usb"]
    printed, held, there = [], [], 0
    for setting in plan.settings:
        print_pair = [published.TABLE_1[m][setting.name].std for m in OURS_AND_FIXMATCH]
        a, b = (std if std is not None else math.inf for std in print_pair)
        printed.append((a < b, f"{setting.name} ({a} against {b})"))
        errors = [best_errors(evidence.store, m, setting) for m in OURS_AND_FIXMATCH]
        there += sum(map(len, errors))
        if min(map(len, errors)) == len(SEEDS):
            held.append(stdev(errors[0]) < stdev(errors[1]))
    total = len(OURS_AND_FIXMATCH) * len(plan.settings) * len(SEEDS)
    ours = f"; by our runs in {sum(held)} of {len(held)}" if held else ""
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
