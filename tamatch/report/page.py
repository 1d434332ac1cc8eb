"""Pages from templates; and the report of one run, with everything its template shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ..storage.files import write_bytes
from .album import data_url
from .balance import balance_of
from .classes import accuracy_table, label_counts, mistakes_of
from .first_answer import FirstAnswer, first_answer_of, tuned_ladder
from .folder import (
    Figures,
    RunFiles,
    circumstances,
    configuration,
    data_facts,
    method_options,
    read_folder,
    skipped_files,
)
from .metrics import Log
from .svg import Line, line_chart, small_chart
from .trust import Held
from .usage import usage_of
from .verdict import verdict_of
from .words import UNKNOWN, count, duration, numbers, percent, share, table, text, whole

ORACLE = "oracle: chosen on the test set"
OTHERS = 60  # further quantities that are drawn, at most
_DRAWN_ELSEWHERE = {"total", "sup", "unsup", "lr", "used", "weight", "max_weight"}
_OPTION = re.compile(r"--[a-z][a-z-]*")  # browsers break a line after each hyphen


@cache
def environment(package: str, folder: str = "templates") -> Environment:
    """What fills the templates in a folder of a package; a name or value cannot become HTML."""
    made = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"count": count, "percent": percent, "share": share, "tidy": _tidy}
    return made


def _tidy(text: str) -> Markup:
    """Keep a number and its percent sign on one line, and so the parts of an option's name."""
    safe = str(escape(text)).replace(" %", "\u00a0%")
    return Markup(_OPTION.sub(r'<span class="word">\g<0></span>', safe))


def write_page(template: str, out: Path, **values: object) -> Path:
    """Write the page whole or not at all, so that a reader never sees half of it."""
    page = environment("tamatch.report").get_template(template).render(**values)
    # A file name may hold bytes that are no text; "replace" writes them as question marks.
    write_bytes(out, page.encode("utf-8", "replace"))
    return out


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write RUN/report.html or `out`, one self-contained file, from the result files in RUN."""
    whole_run = read_folder(run)
    folder = whole_run.shown
    facts, baseline = folder.figures, folder.baseline_figures
    labels = label_counts(numbers(folder.data.get("labelled_shares")), folder.labelled)
    train, held = folder.metrics.of("train"), folder.trust.held
    accuracy_columns, accuracies = accuracy_table(facts, baseline, labels, held)
    first = first_answer_of(folder)
    return write_page(
        "report.html.j2",
        out or run / "report.html",
        run=facts,
        baseline=baseline,
        first=first,
        ladder=tuned_ladder(whole_run) or first,
        tuned=bool(whole_run.tuning),
        summary=_summary(folder),
        notes=_notes(whole_run),
        warnings=_warnings(folder),
        verdict=verdict_of(whole_run),
        tiles=tiles(facts, baseline, folder.labelled, held, first),
        errors=_error_rows(facts, baseline),
        error_charts=error_charts(error_lines(folder), facts.measured_on),
        accuracies=accuracies,
        accuracy_columns=accuracy_columns,
        mistakes=mistakes_of(held, facts.classes, run),
        seen=_seen(folder),
        not_measured=folder.trust.reason,
        balance=balance_of(folder),
        usage=usage_of(train, facts.classes, folder.trust.pool, run),
        loss_charts=_loss_charts(train),
        other_charts=_other_charts(train),
        views=data_url(run / "batch.png"),
        data=data_facts(folder),
        split_stored=(run / "split.csv").is_file(),
        skipped=skipped_files(run / "skipped.csv"),
        configuration=configuration(whole_run),
        options=[] if first else method_options(folder),
        circumstances=circumstances(whole_run),
        command=text(whole_run.about.get("command")),
        train=train,
    )


def _summary(folder: RunFiles) -> list[str]:
    """The line under the title."""
    facts, device = folder.figures, text(folder.about.get("device"))
    facts_in_words = [
        text(folder.about.get("status"), "status unknown"),
        f"seed {facts.seed}",
        f"{count(facts.steps)} steps" if facts.steps and not folder.first_answer else "",
        folder.net,
        f"{duration(facts.seconds)} on {device or 'an unknown device'}"
        if facts.seconds is not None
        else device,
    ]
    return [fact for fact in facts_in_words if fact]


def _seen(folder: RunFiles) -> str:
    """How many held-out images were also trained on; empty if the run did not record that."""
    seen = whole(table(folder.about.get("seen")).get(folder.figures.measured_on))
    if seen is None:
        return ""
    if not seen:
        return ", none of which is a labelled training image"
    return (
        f", {count(seen)} of which are also labelled training images, so the figures look too good"
    )


def _warnings(folder: RunFiles) -> list[dict[str, str]]:
    """What was seen, the likely cause and the cure: the warnings that the run wrote down."""
    listed = folder.about.get("warnings")
    found = []
    for entry in listed if isinstance(listed, list) else []:
        parts = {name: text(table(entry).get(name)) for name in ("what", "cause", "cure")}
        if what := parts["what"]:
            found.append({**parts, "what": what[0].upper() + what[1:]})
    return found


def _notes(folder: RunFiles) -> list[str]:
    """What is missing, of the run and of its baseline."""
    inner = () if folder.baseline is None else folder.baseline.notes
    return [*folder.notes, *(f"Baseline: {note}" for note in inner)]


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
        name, accuracy = run.worst
        others = {}
        if baseline is not None:
            others = dict(zip(baseline.classes, baseline.per_class, strict=False))
        detail = f"{percent(others[name])} in the baseline" if name in others else ""
        shown.append(Tile("Worst class", percent(accuracy), detail, name))
    if run.utilization is not None:
        last = "log interval" if first is None else "round"
        detail = f"accepted as pseudo-labels in the last {last}"
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


def _error_rows(run: Figures, baseline: Figures | None) -> list[tuple[str, ...]]:
    """Header and rows: last, median, best; the best says that it was picked on the test set."""
    runs = [run] if baseline is None else [run, baseline]
    header = (f"{run.measured_on} error", *(one.method for one in runs))
    rows = [
        ("last step", *(percent(one.error_last, 2) for one in runs)),
        ("median of the last 20 tests", *(percent(one.error_median, 2) for one in runs)),
        (f"best ({ORACLE})", *(percent(one.error_best, 2) for one in runs)),
        ("step of the best", *(count(one.best_step) for one in runs)),
    ]
    if run.measured_on != "test":
        return [header, rows[0]]
    return [header, *(row for row in rows if set(row[1:]) != {UNKNOWN})]


def error_charts(lines: Sequence[Line], measured_on: str) -> list[Markup]:
    """The whole run and, enlarged, its second half, where the runs differ by little."""
    name = f"{measured_on.capitalize()} error"
    charts = [line_chart(f"{name}, whole run", lines, unit=" %")]
    end = max((x for line in lines for x, _ in line.points), default=0.0)
    late = [
        replace(line, points=[point for point in line.points if point[0] >= end / 2])
        for line in lines
    ]
    if any(len(line.points) >= 4 for line in late):
        note = "Enlarged: the axis may not start at zero."
        charts.append(line_chart(f"{name}, second half", late, unit=" %", fit="data", note=note))
    return [chart for chart in charts if chart]


def error_lines(run: RunFiles) -> list[Line]:
    """The method solid, the baseline dashed; the validation error too where there are both."""
    method, kind = run.figures.method, run.figures.measured_on
    lines = [Line(method, run.metrics.of(kind).curve("error"))]
    if run.baseline is not None:
        curve = run.baseline.metrics.of(kind).curve("error")
        lines.append(Line(f"{run.baseline.figures.method} (baseline)", curve, 2, "dashed"))
    if kind == "test":
        curve = run.metrics.of("validation").curve("error")
        lines.append(Line(f"{method}, validation", curve, 3, "dotted"))
    return lines


def _loss_charts(log: Log) -> list[Markup]:
    """Losses, and the learning rate beside them."""
    losses = [
        Line("total", log.curve("total"), 8),
        Line("labelled", log.curve("sup"), 1, "dashed"),
        Line("unlabelled", log.curve("unsup"), 2, "dotted"),
    ]
    charts = [
        line_chart("Losses", losses),
        line_chart("Learning rate", [Line("learning rate", log.curve("lr"))]),
    ]
    return [chart for chart in charts if chart]


def _other_charts(log: Log) -> list[Markup]:
    """Whatever else the method logs."""
    names = [name for name in log.scalar_names() if name not in _DRAWN_ELSEWHERE]
    return [small_chart(name, [Line(name, log.curve(name))]) for name in names[:OTHERS]]
