"""The ladder in the report: what labels alone reach, what the pool adds, what tuning adds."""

from __future__ import annotations

from dataclasses import dataclass

from .folder import RunFiles
from .words import UNKNOWN, count, duration, number, numbers, percent, table, text, whole

CAVEAT = (
    "Held-out labels: each label was guessed without being seen, by cross-validation. The error is "
    "that of images like the labelled ones, and rather too high, since fewer labels were learnt."
)

TUNED_CAVEAT = (
    "Held-out labels: of the first two rows, each label was guessed once without being seen, by "
    "cross-validation; of the tuned net, only those that were kept from it. Times: of the first "
    "two rows with the features, which they share."
)


@dataclass(frozen=True)
class CrossValidated:
    """The error on labels that were held out, in percent."""

    error: float
    low: float
    high: float
    labels: int

    def __str__(self) -> str:
        return f"{percent(self.error)} ({self.low:.1f} to {percent(self.high)})"


@dataclass(frozen=True)
class FirstAnswer:
    """The ladder as rows with a header, and sentences on it."""

    ladder: list[tuple[str, ...]]
    remarks: list[str]
    error: CrossValidated | None
    baseline: CrossValidated | None


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
    return CrossValidated(error, ends[0], ends[1], labels)


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
            ladder.append((name, *_errors(rung, measured), _own_time(rung)))
    if seconds is not None:
        ladder.append(("all", *blank, duration(seconds)))
    error = cross_validated(run)
    remarks = [CAVEAT if error else f"No label was held out. {text(told.get('reason'))}"]
    remarks += filter(None, [doubling(run)])
    return FirstAnswer(ladder, remarks, error, None if inner is None else cross_validated(inner))


def tuned_ladder(run: RunFiles) -> FirstAnswer | None:
    """What a run says whose net was tuned from a first answer; None for any other run."""
    if not (rungs := _rungs(run)):
        return None
    part = "test error" if any(number(rung.get("error")) is not None for rung in rungs) else ""
    rows = [("", *([part] if part else []), "error on held-out labels", "time")]
    for rung in rungs:
        measured = (_between(rung),) if part else ()
        held_out = table(rung.get("held_out"))
        labels = f" of {count(whole(held_out.get('labels')))}" if held_out else ""
        seconds = duration(number(rung.get("seconds")))
        rows.append((text(rung.get("name")), *measured, _between(held_out) + labels, seconds))
    inner = run.shown.baseline
    baseline = cross_validated(inner) if inner else None
    remarks = [text(run.tuning.get("reason")), TUNED_CAVEAT]
    return FirstAnswer(rows, remarks, cross_validated(run.shown), baseline)


def _rungs(run: RunFiles) -> list[dict[str, object]]:
    listed = run.tuning.get("ladder")
    return [table(rung) for rung in listed] if isinstance(listed, list) else []


def _between(found: dict[str, object]) -> str:
    error, ends = number(found.get("error")), numbers(found.get("interval"))
    if error is None:
        return UNKNOWN
    return percent(error) + (f" ({ends[0]:.1f} to {percent(ends[1])})" if len(ends) == 2 else "")


def doubling(run: RunFiles) -> str:
    """What twice the labels would bring, by the learning curve."""
    curve = table(run.first_answer.get("learning_curve"))
    doubled, error = table(curve.get("doubled")), cross_validated(run)
    expected, ends = number(doubled.get("error")), numbers(doubled.get("interval"))
    if error is None or expected is None or len(ends) != 2:
        return ""
    return (
        f"With twice as many labels ({count(2 * error.labels)}), an error of {percent(expected)} "
        f"is to be expected ({ends[0]:.1f} to {percent(ends[1])}) instead of "
        f"{percent(error.error)}, if it goes on falling as it did up to here."
    )


def _errors(rung: RunFiles, measured: list[str]) -> tuple[str, ...]:
    held, shown = rung.trust.held, percent(rung.figures.error_last)
    if held is not None:
        shown += f" ({100 - held.high:.1f} to {percent(100 - held.low)})"
    return (*([shown] if measured else []), str(cross_validated(rung) or UNKNOWN))


def _own_time(rung: RunFiles) -> str:
    """Without the features, which all rungs share."""
    seconds = number(rung.result.get("seconds"))
    looking = number(rung.first_answer.get("features_seconds"))
    return duration(None if seconds is None or looking is None else max(0.0, seconds - looking))
