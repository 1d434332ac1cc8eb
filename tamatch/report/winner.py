"""One plain sentence: which of several groups of runs has the lowest error, and is that sure?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from .groups import Group, mean_and_spread, unfair
from .paired import compared
from .verdict import UNMEASURED, Verdict


def winner(groups: Sequence[Group]) -> Verdict | None:
    """The two lowest errors beside each other; None where there is one group alone."""
    if len(groups) < 2:
        return None
    measured = [group for group in groups if group.errors]
    if not any(member.facts.finished for group in groups for member in group.members):
        return Verdict("Not yet known", "No run has finished.", "open")
    if not measured:
        return Verdict("Not measured", UNMEASURED, "open")
    if len(measured) == 1:
        told = f"Only {measured[0].name} has an error: there is nothing to compare it with."
        return Verdict("Not measured", told, "open")
    kinds = {member.facts.measured_on for group in measured for member in group.finished}
    if len(kinds - {""}) > 1:
        told = "Some errors were measured on a test set, others on a validation part."
        return Verdict("Not comparable", told, "open")
    first, second, *_ = sorted(measured, key=lambda group: fmean(group.errors))
    return _judge(first, second, next(iter(kinds - {""})), rivals=len(measured))


def _judge(first: Group, second: Group, kind: str, *, rivals: int) -> Verdict:
    lowest = "" if rivals == 2 else "The two lowest: "
    several = len(first.errors) + len(second.errors) > 2
    what = f"{'mean ' if several else ''}{kind} error"
    own, other = (mean_and_spread(group.errors) for group in (first, second))
    both = f"{lowest}{what} is {own} with {first.name}, {other} with {second.name}"
    both = both[0].upper() + both[1:]
    judge = _by_runs(first, second, both) if several else _by_images(first, second, kind, both)
    if also := unfair(first, second):
        told = f"{judge.reason} They also differ in {' and '.join(also)}."
        return replace(judge, reason=told)
    return judge


def _by_runs(first: Group, second: Group, both: str) -> Verdict:
    """By the errors of single runs, which show what the seed alone can change."""
    if max(first.errors) < min(second.errors):
        told = f"{both}; every run of the first is below every run of the second."
        return Verdict(f"{first.name} is better", told, "good")
    return Verdict("No clear difference", f"{both}; the errors of single runs overlap.", "open")


def _by_images(first: Group, second: Group, kind: str, both: str) -> Verdict:
    """By the images that one of the two runs has right and the other has not."""
    ours, theirs = (group.finished[0].folder.path for group in (first, second))
    pairs = compared(ours, theirs, kind)
    if pairs is None:
        told = f"{both}; their predictions do not show whether these are the same images."
        return Verdict("Not known", told, "open")
    if pairs.low > 0:
        between = f"95 % confidence interval {pairs.low:.1f} to {pairs.high:.1f}"
        told = f"{both}: {pairs.gap:.1f} points lower ({between})."
        return Verdict(f"{first.name} is better", told, "good")
    return Verdict("No clear difference", f"{both}. {pairs.undecided}", "open")
