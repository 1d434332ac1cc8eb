"""The report of several runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from ..errors import UsageError
from .charts import error_charts
from .curve import Line
from .facts import ORACLE, Figures
from .folder import read_folder
from .groups import Group, Member, group_runs, mean_and_spread, with_baselines
from .html import write_page
from .svg import COLOURS
from .verdict import Verdict
from .winner import winner
from .words import UNKNOWN, count, duration, percent, share, shortened

_STYLES = ("solid", "dashed", "dotted")
_OTHERS = ("median of the last 20 tests", "best (oracle)", "worst class", "unlabelled used")


@dataclass(frozen=True)
class Contest:
    """All groups on one data set: who is best, their means, their single runs, their curves.

    Tables have their header as first row; there is none of means where each group is one run.
    """

    data: str
    winner: Verdict | None
    note: str  # how to read the tables; empty where nothing was measured
    means: list[tuple[str, ...]]
    runs: list[tuple[str, ...]]
    charts: list[Markup]


def write_comparison(runs: Sequence[Path], out: Path) -> Path:
    """Write one self-contained page that compares the runs; `out` is the file to write."""
    if not runs:
        raise UsageError("nothing to compare. Give at least one run folder.")
    folders = [read_folder(path) for path in runs]
    entries = with_baselines(folders)
    groups = group_runs(entries)
    contests = [
        _contest(name, [group for group in groups if group.data == name])
        for name in dict.fromkeys(group.data for group in groups)
    ]
    places = _places([folder.path for folder in folders])
    notes = [f"{places[folder.path]}: {note}" for folder in folders for note in folder.notes]
    return write_page(
        "comparison.html.j2",
        out,
        contests=contests,
        total=len(folders),
        baselines=len(entries) - len(folders),
        notes=notes,
    )


def _contest(data: str, groups: Sequence[Group]) -> Contest:
    members = [(group, member) for group in groups for member in group.members]
    kinds = {member.facts.measured_on for _, member in members}
    kind = "test" if "test" in kinds else next((kind for kind in kinds if kind), "")
    lines = [
        Line(
            group.name,
            member.folder.metrics.of(kind).curve("error"),
            1 + index % COLOURS,
            _STYLES[index // COLOURS % len(_STYLES)],
        )
        for index, group in enumerate(groups)
        for member in group.members
    ]
    several = any(len(group.members) > 1 for group in groups)
    scores = (f"{kind} error, last step".strip(), *_OTHERS)
    means = [("method", "runs", *scores), *(_mean_row(group) for group in groups)]
    heading = ("method", "seed", *scores, "steps", "time", "folder")
    places = _places([member.folder.path for _, member in members])
    runs = [heading, *(_run_row(group, member, kind, places) for group, member in members)]
    return Contest(
        data=data,
        winner=winner(groups),
        note=_note(kind, several=several) if kind else "",
        means=_without_empty_columns(means) if several else [],
        runs=_without_empty_columns(runs),
        charts=error_charts(lines, kind) if any(len(line.points) > 1 for line in lines) else [],
    )


def _note(kind: str, *, several: bool) -> str:
    spread = (
        "Mean ± sample standard deviation (ddof = 1) over the finished runs of a group, which "
        "differ only in their seed."
        if several
        else "One run each: the effect of the seed is unknown."
    )
    unfair = f" The best error is not a fair measure ({ORACLE})." if kind == "test" else ""
    return spread + unfair


def _without_empty_columns(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A table without the columns that nobody has a value in."""
    kept = [i for i, cells in enumerate(zip(*rows[1:], strict=True)) if {*cells} != {UNKNOWN}]
    return [tuple(row[i] for i in kept) for row in rows]


def _mean_row(group: Group) -> tuple[str, ...]:
    return (
        group.name,
        group.size,
        mean_and_spread(group.errors),
        mean_and_spread(group.values(lambda facts: facts.error_median)),
        mean_and_spread(group.values(lambda facts: facts.error_best)),
        mean_and_spread(group.values(_worst_accuracy), 1),
        mean_and_spread(group.values(_utilization), 1),
    )


def _run_row(
    group: Group, member: Member, kind: str, places: Mapping[Path, str]
) -> tuple[str, ...]:
    facts = member.facts
    worst = UNKNOWN
    if facts.worst is not None:
        worst = f"{percent(facts.worst[1])} ({shortened(facts.worst[0])})"
    other = f" ({facts.measured_on})" if facts.measured_on not in (kind, "") else ""
    return (
        group.name,
        facts.seed,
        percent(facts.error_last, 2) + other,
        percent(facts.error_median, 2),
        percent(facts.error_best, 2),
        worst,
        share(facts.utilization),
        count(facts.steps),
        duration(facts.seconds),
        shortened(places[member.folder.path]),
    )


def _places(paths: Sequence[Path]) -> dict[Path, str]:
    """The ends of the folders' paths, as long as it takes to tell these apart.

    A baseline has the name of the run it belongs to as well.
    """
    longest = max((len(path.parts) for path in paths), default=0)
    for depth in range(1, longest + 1):
        ends = {p: "/".join(p.parts[-depth - (p.name == "baseline") :]) for p in paths}
        if len({*ends.values()}) == len(ends):
            return ends
    return {path: str(path) for path in paths}


def _worst_accuracy(facts: Figures) -> float | None:
    return None if facts.worst is None else facts.worst[1]


def _utilization(facts: Figures) -> float | None:
    return None if facts.utilization is None else 100 * facts.utilization
