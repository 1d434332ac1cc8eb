"""The small table at the end of training, as plain text cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .facts import Figures, facts_of
from .first_answer import cross_validated, doubling
from .folder import read_folder
from .groups import group_runs, with_baselines
from .verdict import NOT_ASKED, verdict_of
from .winner import winner
from .words import UNKNOWN, percent, share


def summary_table(run: Path) -> list[tuple[str, ...]]:
    """Header and rows: errors, worst class, share of unlabelled images used.

    Each row is a name, the run's value and, where a baseline was trained, the baseline's.
    """
    folder = read_folder(run)
    columns = [facts_of(folder)]
    if folder.baseline is not None:
        columns.append(facts_of(folder.baseline))
    measured_on = columns[0].measured_on or "test"
    rows = [("", *(facts.method for facts in columns))]
    last = "" if folder.result.get("first_answer") else ", last step"
    rows.append((f"{measured_on} error{last}", *(_error(facts) for facts in columns)))
    if any(facts.error_median is not None for facts in columns):
        rows.append(
            ("median of the last 20 tests", *(percent(facts.error_median) for facts in columns))
        )
    if any(facts.worst is not None for facts in columns):
        rows.append(("worst class", *(_worst(facts) for facts in columns)))
    errors = [cross_validated(one) for one in (folder, folder.baseline) if one is not None]
    if any(errors):
        rows.append(("error on held-out labels", *(str(found or UNKNOWN) for found in errors)))
    rows.append(("unlabelled images used", *(share(facts.utilization) for facts in columns)))
    return rows


def verdict_on(run: Path) -> str:
    """Whether the unlabelled images helped, in words; empty for a run without them."""
    found = verdict_of(read_folder(run))
    return "" if found.answer == NOT_ASKED else f"{found.answer}. {found.reason}"


def outlook_on(run: Path) -> str:
    """What twice the labels would bring to a first answer; empty for any other run."""
    return doubling(read_folder(run))


def verdict_between(runs: Sequence[Path]) -> str:
    """Which runs or baselines on the same data have the lowest error, in words; empty if alone."""
    groups = group_runs(with_baselines([read_folder(run) for run in runs]))
    found = winner(groups) if len({group.data for group in groups}) == 1 else None
    return "" if found is None else f"{found.answer}. {found.reason}"


def _error(facts: Figures) -> str:
    return "not measured" if facts.error_last is None else percent(facts.error_last)


def _worst(facts: Figures) -> str:
    return UNKNOWN if facts.worst is None else f'"{facts.worst[0]}" {percent(facts.worst[1])}'
