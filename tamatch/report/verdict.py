"""Did the unlabelled images help? One plain sentence; the table that `train` ends with; and what
the first answer of a frozen net says: what labels alone reach, what the pool adds, what to expect.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..judge.differences import Paired, chance_gap, paired
from ..storage.spreadsheet import read_rows
from .album import album, first_rows
from .folder import Figures, RunFiles, read_folder
from .words import UNKNOWN, count, duration, number, numbers, percent, share, table, text, whole

LABELS_ONLY = ("supervised", "fully_supervised")  # methods that use no unlabelled image
NOT_ASKED = "Not applicable"  # to a run on labels alone
FEWEST = 10  # labels drawn at random, below which an error is no more than its interval
HELD_OUT = "cross-validated"  # the error of a first answer without a test set
NO_POOL = "Every training image has a label; the labelled ones were used as unlabelled ones."
NO_BASELINE = (
    "No supervised baseline was trained for this run, so there is nothing to compare with; "
    "--baseline supervised trains one."
)
UNMEASURED = (
    "There is neither a test set nor a validation part, so no error can be measured; "
    "--validation-per-class N holds out labelled images for that."
)
UNTESTED = (
    "There is no test set to compare first answers on. The report of each has its error on "
    "held-out labels; more labels of images drawn at random (tamatch pick --drawn N) make it surer."
)
BASELINE_TO_COME = (
    "The supervised baseline, to compare with, has not been tested yet: it follows the run itself. "
    "tamatch resume trains what is missing."
)
CAVEAT = (
    "Held-out labels: each label was guessed without being seen, by cross-validation. The error is "
    "that of images like the labelled ones, and rather too high, since fewer labels were learnt."
)
LOWER = (
    "Colours and textures tell these classes, so that the answer also uses what lower blocks of "
    "the net see."
)
DRAWN_CAVEAT = (
    "Held-out labels: only the {judged} that were drawn at random, each guessed without being "
    "seen, by cross-validation. They are a fair sample, so the error is that of the unlabelled "
    "images, and rather too high, since fewer labels were learnt. The other {chosen} were chosen "
    "because they tell much, and are only learnt from."
)

TUNED_CAVEAT = (
    "Held-out labels: in the first two rows, each label was guessed once without being seen, by "
    "cross-validation; in the last, only those that were kept from tuning. They were learnt after "
    "that. The first two times are without the features, which all share."
)
FEW_DRAWN = (
    "Only {judged} of the labels were drawn at random, which are too few to compare by; tamatch "
    "start asks for more, and tamatch pick lists some with --drawn."
)
TUNED_ON_CHOSEN = (
    "Many labels are of images that were chosen because they tell much, so in the last row the "
    "error is too high; the first two rows have it on labels of images drawn at random."
)


@dataclass(frozen=True)
class Conclusion:
    """`answer` is a word or two, `reason` the sentence behind it; `tone` picks the colour."""

    answer: str
    reason: str
    tone: str = "open"  # or "good", "bad"

    def __str__(self) -> str:
        return f"{self.answer}. {self.reason}"


def verdict_of(folder: RunFiles) -> Conclusion:
    """The verdict on a run folder, image by image where both have their predictions.

    For a tuned net it is that on the first answer, whose baseline has the same features.
    """
    if folder.first is not None:
        told = verdict_of(folder.first)
        return replace(told, reason=f"{told.reason} {_on_tuning(folder)}".strip())
    run, baseline = folder.figures, folder.baseline_figures
    if run.labelled_pool and run.method not in LABELS_ONLY:
        return Conclusion("There were none", NO_POOL)
    planned = folder.config.get("baseline") == "supervised"
    if planned and run.error_last is not None and (baseline is None or baseline.error_last is None):
        return Conclusion("Not yet known", BASELINE_TO_COME)
    if not run.held_out and (error := cross_validated(folder)) is not None:
        if error.few:
            return Conclusion("Not measured", FEW_DRAWN.format(judged=error.labels))
        other = None if folder.baseline is None else cross_validated(folder.baseline)
        run = replace(run, error_last=error.error, measured_on=HELD_OUT, images=error.labels)
        if baseline is not None and other is not None:
            baseline = replace(baseline, error_last=other.error, measured_on=HELD_OUT)
        return verdict(run, baseline, folder.labelled)
    if not run.held_out and (reason := text(folder.first_answer.get("reason"))):
        return Conclusion("Not measured", reason)
    pairs = None
    if folder.baseline is not None:
        pairs = compared(folder.path, folder.baseline.path, run.measured_on)
    return verdict(run, baseline, folder.labelled, pairs)


def _on_tuning(folder: RunFiles) -> str:
    last, held_out = folder.figures.error_last, cross_validated(folder)
    if not folder.tuning:
        return ""
    if folder.tuning.get("kept") is False:
        return "The net was tuned, but the first answer is kept."
    if last is not None:
        return f"Tuned from there, the net has {percent(last)}."
    if held_out is None:
        return "The net was tuned from there."
    return f"Tuned from there, the net has {held_out} on {held_out.labels} labels kept from it."


def verdict(
    run: Figures, baseline: Figures | None, labelled: int | None, pairs: Paired | None = None
) -> Conclusion:
    """Compare the run with the supervised baseline, and admit what the test set cannot tell.

    Where there are `pairs`, by the images on which one of the two is right and the other is not.
    """
    if run.method in LABELS_ONLY:
        return Conclusion(NOT_ASKED, "This run uses labelled images only.")
    if run.error_last is None and run.held_out:
        return Conclusion("Not yet known", "No test has been run so far.")
    if run.error_last is None:
        return Conclusion("Not measured", UNMEASURED)
    if baseline is None or baseline.error_last is None:
        return Conclusion("Not measured", NO_BASELINE)
    if not (run.finished and baseline.finished):
        return Conclusion("Not yet known", "Both runs must finish first.")
    if run.measured_on != baseline.measured_on:
        return Conclusion("Not measured", "Run and baseline were measured on different images.")
    labels = "the labels" if labelled is None else f"the {labelled} labels"
    both = (
        f"{run.measured_on.capitalize()} error is {percent(run.error_last)} with the unlabelled "
        f"images, {percent(baseline.error_last)} with {labels} alone"
    )
    if pairs is not None and pairs.low <= 0 <= pairs.high:
        return Conclusion("No clear difference", f"{both}. {pairs.undecided}")
    if pairs is not None:
        low, high = sorted((abs(pairs.low), abs(pairs.high)))
        return _by_gap(both, pairs.gap, f" (95 % confidence interval {low:.1f} to {high:.1f})")
    gap = baseline.error_last - run.error_last
    noise = chance_gap(run.error_last, baseline.error_last, run.images)
    if abs(gap) <= noise:
        if noise == 0:
            return Conclusion("No difference", f"{both}.")
        chance = f"With {run.images} images, a gap below {noise:.1f} points may be chance."
        return Conclusion("No clear difference", f"{both}. {chance}")
    return _by_gap(both, gap)


def _by_gap(both: str, gap: float, interval: str = "") -> Conclusion:
    if gap > 0:
        return Conclusion("Yes, they helped", f"{both}: {gap:.1f} points lower{interval}.", "good")
    return Conclusion("No, they did harm", f"{both}: {-gap:.1f} points higher{interval}.", "bad")


def compared(run: Path, other: Path, part: str) -> Paired | None:
    """Compare two tables of predictions; None where there are none of the same images."""
    ours, theirs = (_right(path / "predictions" / f"{part}.csv") for path in (run, other))
    if not ours or ours.keys() != theirs.keys():
        return None
    gains = [ours[image] - theirs[image] for image in ours]
    return paired(gains.count(1), gains.count(-1), len(gains))


def _right(table: Path) -> dict[str, int]:
    """Of each image, whether it was predicted right; empty if the table cannot be read."""
    try:
        rows = read_rows(table, "image", "label", "predicted")
        return {row["image"]: int(row["label"] == row["predicted"]) for row in rows}
    except DataError:
        return {}


def verdict_on(run: Path) -> str:
    """Whether the unlabelled images helped, in words; empty for a run without them."""
    found = verdict_of(read_folder(run))
    return "" if found.answer == NOT_ASKED else str(found)


def outlook_on(run: Path) -> str:
    """What twice the labels would bring to a first answer; empty for any other run."""
    return doubling(read_folder(run).shown)


def summary_table(run: Path) -> list[tuple[str, ...]]:
    """Errors, worst class and use of the pool, for the run and its baseline; header first."""
    folder = read_folder(run).shown
    ladder = (folder.first, folder.first.baseline) if folder.first else (folder.baseline,)
    runs = [folder, *(one for one in ladder if one is not None)]
    columns = [one.figures for one in runs]
    names = ("net tuned", "first answer", "labels alone") if folder.first else ()
    measured_on = columns[0].measured_on or "test"
    last = ("not measured" if f.error_last is None else percent(f.error_last) for f in columns)
    worst = (
        UNKNOWN if f.worst is None else f'"{f.worst[0]}" {percent(f.worst[1])}' for f in columns
    )
    step = "" if folder.first_answer or folder.first else ", last step"
    known: list[tuple[str, ...]] = [
        ("median of the last 20 tests", *(percent(facts.error_median) for facts in columns)),
        ("worst class", *worst),
        ("error on held-out labels", *(str(cross_validated(one) or UNKNOWN) for one in runs)),
    ]
    return [
        ("", *(names or (facts.method for facts in columns))),
        (f"{measured_on} error{step}", *last),
        *(row for row in known if {*row[1:]} != {UNKNOWN}),
        ("unlabelled images used", *(share(facts.utilization) for facts in columns)),
    ]


@dataclass(frozen=True)
class CrossValidated:
    """The error on labels that were held out, in percent."""

    error: float
    low: float
    high: float
    labels: int
    few: bool = False  # too few that were drawn at random

    def __str__(self) -> str:
        if self.few:
            return f"{self.low:.1f} to {percent(self.high)}"
        return f"{percent(self.error)} ({self.low:.1f} to {percent(self.high)})"


@dataclass(frozen=True)
class FirstAnswer:
    """The ladder as rows with a header, and sentences on it."""

    ladder: list[tuple[str, ...]]
    remarks: list[str]
    error: CrossValidated | None
    baseline: CrossValidated | None
    suspects: dict[str, Any] | None  # labels that the features contradict: how many, an album


def cross_validated(run: RunFiles) -> CrossValidated | None:
    """None also for a net that is trained from its start, or with a single label of some class.

    Of a tuned net, the error on the labels that were kept from it.
    """
    rungs = _rungs(run)
    found = table(rungs[-1].get("held_out") if rungs else run.first_answer.get("cross_validation"))
    error, labels = number(found.get("error")), whole(found.get("labels"))
    ends = numbers(found.get("interval"))
    if error is None or labels is None or len(ends) != 2:
        return None
    few = bool(whole(run.first_answer.get("chosen"))) and labels < FEWEST
    return CrossValidated(error, ends[0], ends[1], labels, few)


def first_answer_of(run: RunFiles) -> FirstAnswer | None:
    """What a run of a frozen net says; None for any other run."""
    told = run.first_answer
    if not told:
        return None
    seconds, looking = number(run.result.get("seconds")), number(told.get("features_seconds"))
    inner, part = run.baseline, run.figures.measured_on
    measured = [f"{part} error"] if part else []
    names = ("labels alone: logistic regression", "labels and unlabelled images: TaMatch")
    header = ("", *measured, "error on held-out labels", "time")
    blank = ("–",) * (len(header) - 2)
    ladder = [header, ("features of the frozen net", *blank, duration(looking))]
    for name, rung in zip(names, (inner, run), strict=True):
        if rung is not None and rung.result:
            ladder.append((name, *_rung(rung, measured=bool(part))))
    if seconds is not None:
        ladder.append(("all", *blank, duration(seconds)))
    error = cross_validated(run)
    reason = f"No label was held out. {text(told.get('reason'))}"
    remarks = [reason if error is None else _caveat(run, error)]
    remarks += filter(None, [doubling(run), LOWER if told.get("lower_blocks") else ""])
    alone = None if inner is None else cross_validated(inner)
    return FirstAnswer(ladder, remarks, error, alone, _suspects(run))


def _caveat(run: RunFiles, error: CrossValidated) -> str:
    chosen = whole(run.first_answer.get("chosen"))
    if not chosen:
        return CAVEAT
    return DRAWN_CAVEAT.format(judged=count(error.labels), chosen=count(chosen))


def _suspects(run: RunFiles) -> dict[str, Any] | None:
    shown = album("suspects", first_rows(run.path / "suspects.csv"), run.path)
    count = whole(run.first_answer.get("suspects"))
    return None if shown is None or count is None else {"count": count, "album": shown}


def junk_on(run: Path) -> str:
    """A sentence for the terminal on images that belong to no class; empty if there are none."""
    found = junk_of(read_folder(run).shown)
    return "" if found is None else found["told"] + " odd.csv lists them."


def junk_of(run: RunFiles) -> dict[str, Any] | None:
    """Images that belong to no class: in words and as an album; None if there are none."""
    told = table(run.result.get("junk"))
    images, part, pool = whole(told.get("images")), number(told.get("share")), run.trust.pool
    if not images or part is None or pool is None:
        return None
    words = (
        f"{count(images)} of {count(pool.images)} unlabelled images rather belong to none of the "
        f"classes; by estimate, {percent(100 * part)} of them do."
    )
    rows = first_rows(run.path / "odd.csv", "belongs")
    return {"told": words, "album": album("odd", rows, run.path)}


def tuned_ladder(run: RunFiles) -> FirstAnswer | None:
    """What a run says whose net was tuned from a first answer; None for any other run."""
    if not (rungs := _rungs(run)):
        return None
    tested = any(number(rung.get("error")) is not None for rung in rungs)
    ladder = [("", *["test error"] * tested, "error on held-out labels", "time")]
    for rung in rungs:
        held_out = table(rung.get("held_out"))
        labels = f" of {count(whole(held_out.get('labels')))}" if held_out else ""
        errors = (*[_between(rung)] * tested, _between(held_out) + labels)
        ladder.append((text(rung.get("name")), *errors, duration(number(rung.get("seconds")))))
    inner = run.shown.baseline
    baseline = None if inner is None else cross_validated(inner)
    remarks = [text(run.tuning.get("reason")), TUNED_CAVEAT]
    first = table(run.result.get("first_answer"))
    remarks += [TUNED_ON_CHOSEN] * bool(whole(first.get("chosen")))
    remarks += [LOWER] * bool(first.get("lower_blocks"))
    suspects = _suspects(run.first) if run.first else None
    return FirstAnswer(ladder, remarks, cross_validated(run.shown), baseline, suspects)


def _rungs(run: RunFiles) -> list[dict[str, object]]:
    listed = run.tuning.get("ladder")
    return [table(rung) for rung in listed] if isinstance(listed, list) else []


def _between(found: dict[str, object]) -> str:
    error, ends = number(found.get("error")), numbers(found.get("interval"))
    if error is None:
        return UNKNOWN
    return percent(error) + (f" ({ends[0]:.1f} to {percent(ends[1])})" if len(ends) == 2 else "")


def _rung(run: RunFiles, *, measured: bool) -> tuple[str, ...]:
    """The errors of a run and its time without the features, which all rungs share."""
    held, shown = run.trust.held, percent(run.figures.error_last)
    if held is not None:
        shown += f" ({100 - held.high:.1f} to {percent(100 - held.low)})"
    seconds = number(run.result.get("seconds"))
    looking = number(run.first_answer.get("features_seconds"))
    own = None if seconds is None or looking is None else max(0.0, seconds - looking)
    return (*([shown] if measured else []), str(cross_validated(run) or UNKNOWN), duration(own))


def doubling(run: RunFiles) -> str:
    """What twice the labels would bring, by the learning curve."""
    curve = table(run.first_answer.get("learning_curve"))
    doubled, error = table(curve.get("doubled")), cross_validated(run)
    expected, ends = number(doubled.get("error")), numbers(doubled.get("interval"))
    if error is None or error.few or expected is None or len(ends) != 2:
        return ""
    labels = error.labels + (whole(run.first_answer.get("chosen")) or 0)
    return (
        f"With twice as many labels ({count(2 * labels)}), an error of {percent(expected)} "
        f"is to be expected ({ends[0]:.1f} to {percent(ends[1])}) instead of "
        f"{percent(error.error)}, if it goes on falling as it did up to here."
    )
