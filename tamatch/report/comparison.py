"""Several runs side by side: groups of seeds, which of them is best, and the page."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ..errors import UsageError
from .folder import Figures, RunFiles, read_folder
from .page import ORACLE, error_charts
from .svg import COLOURS, Line
from .verdict import UNMEASURED, UNTESTED, Conclusion, compared
from .words import UNKNOWN, count, duration, percent, share, shortened, text, write_page

# Settings that say where and how a run was made, not what was trained.
_IRRELEVANT = {
    "seed", "out", "overwrite", "config", "baseline", "device", "threads", "root", "images",
    "tensorboard", "wandb", "mlflow",
}  # fmt: skip
_UNSET = "not set"
_FAIR = ("net", "weights", "size", "labels", "labels_per_class", "steps")  # the same, or unfair
_STYLES = ("solid", "dashed", "dotted")
_OTHERS = ("median of the last 20 tests", "best (oracle)", "worst class", "unlabelled used")


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seed; `name` says what sets the group apart."""

    name: str
    data: str
    members: list[RunFiles]

    @property
    def finished(self) -> list[RunFiles]:
        """The runs that count."""
        return [member for member in self.members if member.figures.finished]

    @property
    def errors(self) -> list[float]:
        """The last error of every finished run that has one."""
        return self.values(lambda facts: facts.error_last)

    def values(self, pick: Callable[[Figures], float | None]) -> list[float]:
        """One figure of every finished member that has it."""
        found = [pick(member.figures) for member in self.finished]
        return [value for value in found if value is not None]


def group_runs(folders: Sequence[RunFiles]) -> list[Group]:
    """Groups by data set, lowest mean error first; groups without an error come last."""
    collected: dict[tuple[str, ...], list[RunFiles]] = {}
    for folder in folders:
        given = sorted(item for item in _settings(folder).items() if item[1] != _UNSET)
        key = (folder.figures.data, folder.figures.method, *map(repr, given))
        collected.setdefault(key, []).append(folder)
    groups = []
    for own, members in collected.items():
        rivals = [
            _settings(others[0])
            for key, others in collected.items()
            if key[:2] == own[:2] and key != own
        ]
        name = " · ".join([own[1], *_differences(_settings(members[0]), rivals)])
        groups.append(Group(name, own[0], members))
    return sorted(groups, key=lambda g: (g.data, fmean(g.errors) if g.errors else math.inf, g.name))


def with_baselines(folders: Sequence[RunFiles]) -> list[RunFiles]:
    """The runs and their supervised baselines, each of these once: several methods may share it."""
    known = {_identity(folder) for folder in folders}
    own = [folder.baseline for folder in folders if folder.baseline is not None]
    others = {_identity(inner): inner for inner in own}
    return [*folders, *(inner for key, inner in others.items() if key not in known)]


def _identity(folder: RunFiles) -> tuple[str, ...]:
    facts = folder.figures
    return facts.data, facts.seed, *map(repr, sorted(_settings(folder).items()))


def _settings(folder: RunFiles) -> dict[str, str]:
    """What was trained, flat and in words."""
    flat = {**folder.config, **folder.options}
    return {k: text(v) or _UNSET for k, v in flat.items() if k not in _IRRELEVANT | {"options"}}


def _differences(own: dict[str, str], others: Sequence[dict[str, str]]) -> list[str]:
    """Settings in which groups differ; those that only some have count if there are no others."""
    names = dict.fromkeys([*own, *(name for other in others for name in other)])
    differ = [
        name
        for name in names
        if any(other.get(name, _UNSET) != own.get(name, _UNSET) for other in others)
    ]
    shared = [n for n in differ if n in own and all(n in other for other in others)]
    words = {name: name.strip("_").replace("_", " ") for name in names}
    return [f"{words[name]} {own.get(name, _UNSET)}" for name in shared or differ]


def verdict_between(runs: Sequence[Path]) -> str:
    """Which runs or baselines on the same data have the lowest error, in words; empty if alone."""
    groups = group_runs(with_baselines([read_folder(run) for run in runs]))
    found = winner(groups) if len({group.data for group in groups}) == 1 else None
    return "" if found is None else str(found)


def winner(groups: Sequence[Group]) -> Conclusion | None:
    """Which group has the lowest error, and whether that is sure; None where there is only one."""
    if len(groups) < 2:
        return None
    measured = [group for group in groups if group.errors]
    if not any(group.finished for group in groups):
        return Conclusion("Not yet known", "No run has finished.")
    if not measured:
        solved = all(member.first_answer for group in groups for member in group.members)
        return Conclusion("Not measured", UNTESTED if solved else UNMEASURED)
    if len(measured) == 1:
        told = f"Only {measured[0].name} has an error: there is nothing to compare it with."
        return Conclusion("Not measured", told)
    kinds = {member.figures.measured_on for group in measured for member in group.finished} - {""}
    if len(kinds) > 1:
        told = "Some errors were measured on a test set, others on a validation part."
        return Conclusion("Not comparable", told)
    first, second, *_ = sorted(measured, key=lambda group: fmean(group.errors))
    return _judge(first, second, next(iter(kinds)), rivals=len(measured))


def _judge(first: Group, second: Group, kind: str, *, rivals: int) -> Conclusion:
    lowest = "" if rivals == 2 else "The two lowest: "
    several = len(first.errors) + len(second.errors) > 2
    what = f"{'mean ' if several else ''}{kind} error"
    own, other = (mean_and_spread(group.errors) for group in (first, second))
    both = f"{lowest}{what} is {own} with {first.name}, {other} with {second.name}"
    both = both[0].upper() + both[1:]
    if not several:
        found = _by_images(first, second, kind, both)
    elif max(first.errors) < min(second.errors):  # which shows what the seed alone can change
        told = f"{both}; every run of the first is below every run of the second."
        found = Conclusion(f"{first.name} is better", told, "good")
    else:
        told = f"{both}; the errors of single runs overlap."
        found = Conclusion("No clear difference", told)
    if also := _unfair(first.members[0], second.members[0]):
        told = f"{found.reason} They also differ in {' and '.join(also)}."
        return replace(found, reason=told)
    return found


def _by_images(first: Group, second: Group, kind: str, both: str) -> Conclusion:
    """By the images that one of the two runs has right and the other has not."""
    pairs = compared(first.finished[0].path, second.finished[0].path, kind)
    if pairs is None:
        told = f"{both}; their predictions do not show whether these are the same images."
        return Conclusion("Not known", told)
    if pairs.low > 0:
        between = f"95 % confidence interval {pairs.low:.1f} to {pairs.high:.1f}"
        told = f"{both}: {pairs.gap:.1f} points lower ({between})."
        return Conclusion(f"{first.name} is better", told, "good")
    return Conclusion("No clear difference", f"{both}. {pairs.undecided}")


def _unfair(first: RunFiles, second: RunFiles) -> list[str]:
    """Settings besides the method and its options that may explain why two methods differ."""
    if first.figures.method == second.figures.method:
        return []  # their names say it
    one, other = _settings(first), _settings(second)
    return [n.replace("_", " ") for n in _FAIR if n in one and n in other and one[n] != other[n]]


def mean_and_spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean ± sample standard deviation (ddof = 1); the mean alone for a single value."""
    if not values:
        return UNKNOWN
    mean = percent(fmean(values), digits)
    return mean if len(values) < 2 else f"{mean[:-2]} ± {stdev(values):.{digits}f} %"


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
    places = _places(folders)
    notes = [f"{places[folder.path]}: {note}" for folder in folders for note in folder.notes]
    return write_page(
        "comparison.html.j2",
        out,
        contests=contests,
        total=len(folders),
        baselines=len(entries) - len(folders),
        notes=notes,
    )


def _contest(data: str, groups: Sequence[Group]) -> dict[str, Any]:
    """All groups on one data set: who is best, their means, their single runs, their curves."""
    members = [(group, member) for group in groups for member in group.members]
    kinds = {member.figures.measured_on for _, member in members}
    kind = "test" if "test" in kinds else next((kind for kind in kinds if kind), "")
    lines = [
        Line(
            group.name,
            member.metrics.of(kind).curve("error"),
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
    places = _places([member for _, member in members])
    rows = [
        (group.name, *_run_row(run, kind), shortened(places[run.path])) for group, run in members
    ]
    return {
        "data": data,
        "winner": winner(groups),
        "kind": kind,
        "oracle": ORACLE,
        "means": _without_empty_columns(means) if several else [],
        "runs": _without_empty_columns([heading, *rows]),
        "charts": error_charts(lines, kind) if any(len(line.points) > 1 for line in lines) else [],
    }


def _without_empty_columns(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A table without the columns that nobody has a value in."""
    kept = [i for i, cells in enumerate(zip(*rows[1:], strict=True)) if {*cells} != {UNKNOWN}]
    return [tuple(row[i] for i in kept) for row in rows]


def _mean_row(group: Group) -> tuple[str, ...]:
    done, total = len(group.finished), len(group.members)
    used = group.values(lambda facts: facts.utilization)
    return (
        group.name,
        str(total) if done == total else f"{done} of {total}",
        mean_and_spread(group.errors),
        mean_and_spread(group.values(lambda facts: facts.error_median)),
        mean_and_spread(group.values(lambda facts: facts.error_best)),
        mean_and_spread(group.values(lambda facts: facts.worst and facts.worst[1]), 1),
        mean_and_spread([100 * value for value in used], 1),
    )


def _run_row(run: RunFiles, kind: str) -> tuple[str, ...]:
    """The cells between the group's name and the folder."""
    facts, worst = run.figures, UNKNOWN
    if facts.worst is not None:
        worst = f"{percent(facts.worst[1])} ({shortened(facts.worst[0])})"
    other = f" ({facts.measured_on})" if facts.measured_on not in (kind, "") else ""
    return (
        facts.seed,
        percent(facts.error_last, 2) + other,
        percent(facts.error_median, 2),
        percent(facts.error_best, 2),
        worst,
        share(facts.utilization),
        count(facts.steps),
        duration(facts.seconds),
    )


def _places(runs: Sequence[RunFiles]) -> dict[Path, str]:
    """The ends of the folders' paths, as long as it takes to tell these apart."""
    paths = [run.path for run in runs]
    longest = max((len(path.parts) for path in paths), default=0)
    for depth in range(1, longest + 1):
        ends = {p: "/".join(p.parts[-depth - (p.name == "baseline") :]) for p in paths}
        if len({*ends.values()}) == len(ends):
            return ends
    return {path: str(path) for path in paths}
