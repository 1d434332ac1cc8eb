"""Group runs that differ in nothing but their seed, and average over each group."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from .facts import Figures, facts_of
from .folder import RunFiles
from .values import table, text
from .words import UNKNOWN, percent

# Settings that say where and how a run was made, not what was trained.
_IRRELEVANT = {
    "seed", "out", "overwrite", "config", "baseline", "device", "threads", "root", "images",
    "tensorboard",
}  # fmt: skip
_UNSET = "not set"
_FAIR = ("net", "weights", "size", "labels", "labels_per_class", "steps")  # the same, or unfair


@dataclass(frozen=True)
class Member:
    """One run of a comparison."""

    folder: RunFiles
    facts: Figures


@dataclass(frozen=True)
class Group:
    """Runs with the same method, data and settings; `name` says what sets the group apart."""

    name: str
    data: str
    members: list[Member]

    @property
    def size(self) -> str:
        """How many runs, and how many of them count so far."""
        done, total = len(self.finished), len(self.members)
        return str(total) if done == total else f"{done} of {total}"

    @property
    def finished(self) -> list[Member]:
        """The runs that count."""
        return [member for member in self.members if member.facts.finished]

    @property
    def errors(self) -> list[float]:
        """The last error of every finished run that has one."""
        return self.values(lambda facts: facts.error_last)

    def values(self, pick: Callable[[Figures], float | None]) -> list[float]:
        """One figure of every finished member that has it."""
        found = [pick(member.facts) for member in self.finished]
        return [value for value in found if value is not None]


def mean_and_spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean ± sample standard deviation (ddof = 1); the mean alone for a single value."""
    if not values:
        return UNKNOWN
    mean = percent(fmean(values), digits)
    return mean if len(values) < 2 else f"{mean[:-2]} ± {stdev(values):.{digits}f} %"


def with_baselines(folders: Sequence[RunFiles]) -> list[RunFiles]:
    """The runs and their supervised baselines, each of these once: several methods may share it."""
    known = {_identity(folder) for folder in folders}
    own = [folder.baseline for folder in folders if folder.baseline is not None]
    others = {_identity(inner): inner for inner in own}
    return [*folders, *(inner for key, inner in others.items() if key not in known)]


def _identity(folder: RunFiles) -> tuple[str, ...]:
    facts = facts_of(folder)
    return facts.data, facts.seed, *map(repr, sorted(_settings(folder).items()))


def group_runs(folders: Sequence[RunFiles]) -> list[Group]:
    """Groups by data set, lowest mean error first; groups without an error come last."""
    members = [Member(folder, facts_of(folder)) for folder in folders]
    settings = [_settings(member.folder) for member in members]
    collected: dict[tuple[str, ...], list[int]] = {}
    for index, member in enumerate(members):
        given = sorted(item for item in settings[index].items() if item[1] != _UNSET)
        key = (member.facts.data, member.facts.method, *map(repr, given))
        collected.setdefault(key, []).append(index)
    groups = []
    for (data, method, *_), indices in collected.items():
        rivals = [
            settings[other[0]]
            for key, other in collected.items()
            if key[:2] == (data, method) and other != indices
        ]
        name = " · ".join([method, *_differences(settings[indices[0]], rivals)])
        groups.append(Group(name, data, [members[index] for index in indices]))
    return sorted(groups, key=_order)


def _settings(folder: RunFiles) -> dict[str, str]:
    """What was trained, flat and in words."""
    flat = {**folder.config, **table(folder.config.get("options"))}
    return {k: text(v) or _UNSET for k, v in flat.items() if k not in _IRRELEVANT | {"options"}}


def _differences(own: dict[str, str], others: Sequence[dict[str, str]]) -> list[str]:
    """Settings in which groups differ. One that only some know counts if there is no other: a later
    version may have brought it."""
    names = dict.fromkeys([*own, *(name for other in others for name in other)])
    differ = [
        name
        for name in names
        if any(other.get(name, _UNSET) != own.get(name, _UNSET) for other in others)
    ]
    shared = [n for n in differ if n in own and all(n in other for other in others)]
    words = {name: name.strip("_").replace("_", " ") for name in names}
    return [f"{words[name]} {own.get(name, _UNSET)}" for name in shared or differ]


def unfair(first: Group, second: Group) -> list[str]:
    """Settings besides the method and its options that may explain why two methods differ."""
    one, other = (_settings(group.members[0].folder) for group in (first, second))
    if first.members[0].facts.method == second.members[0].facts.method:
        return []  # their names say it
    return [n.replace("_", " ") for n in _FAIR if n in one and n in other and one[n] != other[n]]


def _order(group: Group) -> tuple[str, float, str]:
    return group.data, fmean(group.errors) if group.errors else math.inf, group.name
