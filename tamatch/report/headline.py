"""The top of the report: a few large figures, and the table of every error figure."""

from __future__ import annotations

from dataclasses import dataclass

from .facts import ORACLE, Figures
from .first_answer import FirstAnswer
from .trust import Held
from .words import UNKNOWN, count, percent, share


@dataclass(frozen=True)
class Tile:
    """One large figure with what it is above it and what qualifies it below."""

    label: str
    value: str
    detail: str = ""
    name: str = ""  # a class name, which users choose, so it is set apart


def tiles(
    run: Figures, baseline: Figures | None, labelled: int | None, held: Held | None = None,
    first: FirstAnswer | None = None,
) -> list[Tile]:  # fmt: skip
    """Error, accuracy, baseline, worst class and use of the unlabelled images."""
    shown = [] if first and first.error and run.error_last is None else [_error_tile(run, first)]
    if first is not None:
        shown += _held_out_tiles(first)
    if run.error_last is not None:
        shown.append(_accuracy_tile(run, held))
    if baseline is not None and baseline.error_last is not None:
        labels = "the same labels" if labelled is None else f"the same {count(labelled)} labels"
        detail = f"error of training on {labels} only"
        shown.append(Tile("Supervised baseline", percent(baseline.error_last), detail))
    if run.worst is not None:
        shown.append(_worst_tile(run.worst, baseline))
    if run.utilization is not None:
        detail = "accepted as pseudo-labels in the last "
        detail += "log interval" if first is None else "round"
        shown.append(Tile("Unlabelled images used", share(run.utilization), detail))
    return shown


def _held_out_tiles(first: FirstAnswer) -> list[Tile]:
    """The error on held-out labels, with the unlabelled images and without them."""
    kinds = {"Error on held-out labels": first.error, "The same with labels alone": first.baseline}
    return [
        Tile(name, percent(found.error), f"95 % confidence interval {found.low:.1f} to "
             f"{percent(found.high)}; each of {count(found.labels)} labels held out once")
        for name, found in kinds.items() if found is not None
    ]  # fmt: skip


def _error_tile(run: Figures, first: FirstAnswer | None) -> Tile:
    if run.error_last is None:
        told = "no test so far" if run.held_out else "no test set, no validation part"
        return Tile("Error", "not measured", told)
    if first is not None:
        return Tile(f"{run.measured_on.capitalize()} error", percent(run.error_last))
    detail = "at the last step" if run.finished else "at the last evaluation so far"
    if run.error_median is not None:
        detail += f"; median of the last 20 tests {percent(run.error_median)}"
    return Tile(f"{run.measured_on.capitalize()} error", percent(run.error_last), detail)


def _accuracy_tile(run: Figures, held: Held | None) -> Tile:
    balanced = run.balanced_accuracy
    details = [] if balanced is None else [f"mean over classes {percent(balanced)}"]
    if held is not None:
        details.insert(0, f"95 % confidence interval {held.low:.1f} to {percent(held.high)}")
    return Tile("Accuracy", percent(run.accuracy), "; ".join(details))


def _worst_tile(worst: tuple[str, float], baseline: Figures | None) -> Tile:
    name, accuracy = worst
    detail = ""
    if baseline is not None and name in baseline.classes:
        at = baseline.classes.index(name)
        if at < len(baseline.per_class):
            detail = f"{percent(baseline.per_class[at])} in the baseline"
    return Tile("Worst class", percent(accuracy), detail, name)


def error_rows(run: Figures, baseline: Figures | None) -> list[tuple[str, ...]]:
    """Header and rows: last, median, best; the best says that it was picked on the test set."""
    runs = [run] if baseline is None else [run, baseline]
    header = (f"{run.measured_on} error", *(one.method for one in runs))
    if run.measured_on != "test":
        return [header, ("last step", *(percent(one.error_last, 2) for one in runs))]
    rows = [
        ("last step", *(percent(one.error_last, 2) for one in runs)),
        ("median of the last 20 tests", *(percent(one.error_median, 2) for one in runs)),
        (f"best ({ORACLE})", *(percent(one.error_best, 2) for one in runs)),
        ("step of the best", *(count(one.best_step) for one in runs)),
    ]
    return [header, *(row for row in rows if set(row[1:]) != {UNKNOWN})]
