"""One plain sentence: did the unlabelled images help?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .facts import Facts
from .words import percent


@dataclass(frozen=True)
class Verdict:
    """`answer` is a word or two, `reason` the sentence behind it; `tone` picks the colour."""

    answer: str
    reason: str
    tone: str  # "good", "bad" or "open"


def verdict(run: Facts, baseline: Facts | None, labelled: int | None) -> Verdict:
    """Compare the run with the supervised baseline, and admit what the test set cannot tell."""
    if "supervised" in run.method:
        return Verdict("Not asked", "This run learns from labels alone.", "open")
    if run.error_last is None:
        return Verdict(
            "Not measured",
            "There is neither a test set nor a validation part, so no error can be given.",
            "open",
        )
    if baseline is None or baseline.error_last is None:
        return Verdict(
            "Not measured",
            "No supervised baseline was trained beside this run, so there is nothing to compare "
            "with; --baseline supervised trains one.",
            "open",
        )
    if not (run.finished and baseline.finished):
        return Verdict("Not yet known", "Both runs must finish first.", "open")
    if run.measured_on != baseline.measured_on:
        return Verdict(
            "Not measured",
            "Run and baseline were measured on different images.",
            "open",
        )
    return _compare(run, run.error_last, baseline.error_last, labelled)


def _compare(run: Facts, error: float, baseline: float, labelled: int | None) -> Verdict:
    labels = "the labels" if labelled is None else f"the {labelled} labels"
    both = (
        f"{run.measured_on.capitalize()} error is {percent(error)} with the unlabelled images, "
        f"{percent(baseline)} with {labels} alone"
    )
    gap = baseline - error
    noise = _chance_gap(error, baseline, run.images)
    if abs(gap) <= noise:
        if noise == 0:
            return Verdict("No difference", f"{both}.", "open")
        return Verdict(
            "No clear difference",
            f"{both}. With {run.images} images, a gap below {noise:.1f} points can be chance.",
            "open",
        )
    if gap > 0:
        return Verdict("Yes, they helped", f"{both}: {gap:.1f} points lower.", "good")
    return Verdict("No, they did harm", f"{both}: {-gap:.1f} points higher.", "bad")


def _chance_gap(a: float, b: float, images: int | None) -> float:
    """Two standard errors of the difference of two error rates, in points; 0 if n is unknown."""
    if not images:
        return 0.0
    return 2 * math.sqrt((a * (100 - a) + b * (100 - b)) / images)
