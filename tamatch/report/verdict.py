"""One plain sentence: did the unlabelled images help?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .facts import Figures, facts_of
from .first_answer import cross_validated
from .folder import RunFiles
from .paired import Paired, paired
from .values import whole
from .words import percent

LABELS_ONLY = ("supervised", "fully_supervised")  # methods that use no unlabelled image
NOT_ASKED = "Not applicable"  # to a run on labels alone
HELD_OUT = "cross-validated"  # the error of a first answer without a test set
NO_POOL = "There were none"
UNMEASURED = (
    "There is neither a test set nor a validation part, so no error can be measured; "
    "--validation-per-class N holds out labelled images for that."
)
BASELINE_TO_COME = (
    "The supervised baseline, to compare with, has not been tested yet: it follows the run itself. "
    "tamatch resume trains what is missing."
)


@dataclass(frozen=True)
class Verdict:
    """`answer` is a word or two, `reason` the sentence behind it; `tone` picks the colour."""

    answer: str
    reason: str
    tone: str  # "good", "bad" or "open"


def verdict_of(folder: RunFiles) -> Verdict:
    """The verdict on a run folder, image by image where both have their predictions."""
    run, inner = facts_of(folder), folder.baseline
    labelled = whole(folder.data.get("labelled"))
    if run.labelled_pool and run.method not in LABELS_ONLY:
        told = "Every training image has a label; the labelled ones were used as unlabelled ones."
        return Verdict(NO_POOL, told, "open")
    baseline = None if inner is None else facts_of(inner)
    planned = folder.config.get("baseline") == "supervised"
    if planned and run.error_last is not None and (baseline is None or baseline.error_last is None):
        return Verdict("Not yet known", BASELINE_TO_COME, "open")
    if not run.held_out and (error := cross_validated(folder)) is not None:
        other = None if inner is None else cross_validated(inner)
        run = replace(run, error_last=error.error, measured_on=HELD_OUT, images=error.labels)
        if baseline is not None and other:
            baseline = replace(baseline, error_last=other.error, measured_on=HELD_OUT)
        return verdict(run, baseline, labelled)
    pairs = None if inner is None else paired(folder.path, inner.path, run.measured_on)
    return verdict(run, baseline, labelled, pairs)


def verdict(
    run: Figures, baseline: Figures | None, labelled: int | None, pairs: Paired | None = None
) -> Verdict:
    """Compare the run with the supervised baseline, and admit what the test set cannot tell."""
    if run.method in LABELS_ONLY:
        return Verdict(NOT_ASKED, "This run uses labelled images only.", "open")
    if run.error_last is None and run.held_out:
        return Verdict("Not yet known", "No test has been run so far.", "open")
    if run.error_last is None:
        return Verdict("Not measured", UNMEASURED, "open")
    if baseline is None or baseline.error_last is None:
        return Verdict(
            "Not measured",
            "No supervised baseline was trained for this run, so there is nothing to compare "
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
    return _compare(run, run.error_last, baseline.error_last, labelled, pairs)


def _compare(
    run: Figures, error: float, baseline: float, labelled: int | None, pairs: Paired | None
) -> Verdict:
    labels = "the labels" if labelled is None else f"the {labelled} labels"
    both = (
        f"{run.measured_on.capitalize()} error is {percent(error)} with the unlabelled images, "
        f"{percent(baseline)} with {labels} alone"
    )
    if pairs is not None:
        return _judge_pairs(both, pairs)
    gap = baseline - error
    noise = _chance_gap(error, baseline, run.images)
    if abs(gap) <= noise:
        if noise == 0:
            return Verdict("No difference", f"{both}.", "open")
        return Verdict(
            "No clear difference",
            f"{both}. With {run.images} images, a gap below {noise:.1f} points may be chance.",
            "open",
        )
    if gap > 0:
        return Verdict("Yes, they helped", f"{both}: {gap:.1f} points lower.", "good")
    return Verdict("No, they did harm", f"{both}: {-gap:.1f} points higher.", "bad")


def _judge_pairs(both: str, pairs: Paired) -> Verdict:
    """By the images on which one of the two is right and the other is not."""
    low, high = sorted((abs(pairs.low), abs(pairs.high)))
    between = f"95 % confidence interval {low:.1f} to {high:.1f}"
    if pairs.low > 0:
        return Verdict(
            "Yes, they helped", f"{both}: {pairs.gap:.1f} points lower ({between}).", "good"
        )
    if pairs.high < 0:
        told = f"{both}: {-pairs.gap:.1f} points higher ({between})."
        return Verdict("No, they did harm", told, "bad")
    return Verdict("No clear difference", f"{both}. {pairs.undecided}", "open")


def _chance_gap(a: float, b: float, images: int | None) -> float:
    """Two standard errors of the difference of two error rates, in points; 0 if n is unknown."""
    if not images:
        return 0.0
    return 2 * math.sqrt((a * (100 - a) + b * (100 - b)) / images)
