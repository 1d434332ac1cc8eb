"""The report of one run and its model card: what their templates show."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path

from markupsafe import Markup

from .album import data_url
from .classes import accuracy_table, label_counts, mistakes_of
from .folder import Figures, RunFiles, read_folder, skipped_files
from .metrics import Log
from .pool import balance_of, usage_of
from .svg import Line, line_chart, small_chart
from .verdict import cross_validated, first_answer_of, junk_of, tuned_ladder, verdict_of
from .words import UNKNOWN, count, filled, literal, numbers, percent, table, text, whole, write_page

ORACLE = "oracle: chosen on the test set"
OTHERS = 60  # further quantities that are drawn, at most
_DRAWN_ELSEWHERE = {"total", "sup", "unsup", "lr", "used", "weight", "max_weight"}
_LISTED = 200  # classes in a model card


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write RUN/report.html or `out`, one self-contained file, from the result files in RUN."""
    whole_run = read_folder(run)
    folder = whole_run.shown
    facts, baseline = folder.figures, folder.baseline_figures
    labels = label_counts(numbers(folder.data.get("labelled_shares")), folder.labelled)
    train, held = folder.metrics.of("train"), folder.trust.held
    accuracy_columns, accuracies = accuracy_table(facts, baseline, labels, held)
    first = first_answer_of(folder)
    scalars = dict.fromkeys(name for row in train.rows for name in row.scalars)
    others = [name for name in scalars if name not in _DRAWN_ELSEWHERE][:OTHERS]
    baseline_notes = () if folder.baseline is None else folder.baseline.notes
    return write_page(
        "report.html.j2",
        out or run / "report.html",
        folder=folder,
        whole=whole_run,
        run=facts,
        baseline=baseline,
        first=first,
        ladder=tuned_ladder(whole_run) or first,
        tuned=bool(whole_run.tuning),
        junk=junk_of(folder),
        notes=[*whole_run.notes, *(f"Baseline: {note}" for note in baseline_notes)],
        warnings=_warnings(folder),
        verdict=verdict_of(whole_run),
        errors=_error_rows(facts, baseline),
        error_charts=error_charts(error_lines(folder), facts.measured_on),
        accuracies=accuracies,
        accuracy_columns=accuracy_columns,
        held=held,
        mistakes=mistakes_of(held, facts.classes, run) if held else None,
        seen=whole(table(folder.about.get("seen")).get(facts.measured_on)),
        balance=balance_of(folder),
        pool=folder.trust.pool,
        usage=usage_of(train, facts.classes, folder.trust.pool, run),
        loss_charts=_loss_charts(train),
        other_charts=[small_chart(name, [Line(name, train.curve(name))]) for name in others],
        views=data_url(run / "batch.png"),
        split_stored=(run / "split.csv").is_file(),
        skipped=skipped_files(run / "skipped.csv"),
        train=train,
    )


def model_card(run: Path) -> str:
    """What a stranger must know before using the model of a finished run, as Markdown."""
    folder = read_folder(run).shown
    facts, held = folder.figures, folder.trust.held
    model = [("Net", folder.net or UNKNOWN), ("Classes", count(len(facts.classes)))]
    options = [(f"Option {literal(name)}", value) for name, value in folder.method_options]
    method = [("Name", facts.method), ("Steps", count(facts.steps)), ("Seed", facts.seed)]
    precisions = [one.precision for one in held.classes] if held else ()
    classes = zip_longest(facts.classes, facts.per_class, precisions)
    return filled(
        "card.md.j2",
        run=facts,
        held=held,
        cross=cross_validated(folder),
        baseline=folder.baseline_figures,
        model=[*model, *folder.circumstances],
        data=folder.data_facts,
        method=[*method, *options],
        classes=islice(classes, min(len(facts.classes), _LISTED)),
        more=len(facts.classes) - _LISTED,
        own_net=":" in folder.net,
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
