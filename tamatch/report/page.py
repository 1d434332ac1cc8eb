"""The report of one run: everything its template shows."""

from __future__ import annotations

from pathlib import Path

from . import provenance
from .balance import balance_of
from .charts import error_charts, error_lines, loss_charts, other_charts
from .classtables import accuracy_columns, accuracy_rows, label_counts
from .facts import Figures, facts_of
from .first_answer import first_answer_of
from .folder import RunFiles, read_folder
from .headline import error_rows, tiles
from .html import write_page
from .mistakes import mistakes_of
from .picture import data_url
from .usage import usage_of
from .values import numbers, table, text, whole
from .verdict import verdict_of
from .words import count, duration


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write RUN/report.html or `out`, one self-contained file, from the result files in RUN."""
    folder = read_folder(run)
    facts = facts_of(folder)
    baseline = None if folder.baseline is None else facts_of(folder.baseline)
    labelled = whole(folder.data.get("labelled"))
    labels = label_counts(numbers(folder.data.get("labelled_shares")), labelled)
    train = folder.metrics.of("train")
    lines = error_lines(folder, facts, baseline)
    trust = folder.trust
    held, pool = (trust.held, trust.pool) if trust else (None, None)
    first = first_answer_of(folder)
    return write_page(
        "report.html.j2",
        out or run / "report.html",
        run=facts,
        baseline=baseline,
        first=first,
        summary=_summary(folder, facts),
        notes=_notes(folder),
        warnings=_warnings(folder),
        verdict=verdict_of(folder),
        tiles=tiles(facts, baseline, labelled, held, first),
        errors=error_rows(facts, baseline),
        error_charts=error_charts(lines, facts.measured_on),
        accuracies=accuracy_rows(facts, baseline, labels, held),
        accuracy_columns=accuracy_columns(baseline, held),
        mistakes=mistakes_of(held, facts.classes, run),
        seen=_seen(folder, facts),
        not_measured=trust.reason if trust else "trust.json is written when a run finishes",
        balance=balance_of(folder, facts.classes),
        usage=usage_of(train, facts.classes, pool, run),
        loss_charts=loss_charts(train),
        other_charts=other_charts(train),
        views=data_url(run / "batch.png"),
        data=provenance.data_facts(folder),
        split_stored=(run / "split.csv").is_file(),
        skipped=provenance.skipped_files(run / "skipped.csv"),
        configuration=provenance.configuration(folder),
        options=[] if first else provenance.method_options(folder),
        circumstances=provenance.circumstances(folder),
        command=text(folder.about.get("command")),
        train=train,
    )


def _summary(folder: RunFiles, facts: Figures) -> list[str]:
    """The line under the title."""
    net = provenance.net_name(folder)
    device = text(folder.about.get("device"))
    facts_in_words = [
        text(folder.about.get("status"), "status unknown"),
        f"seed {facts.seed}",
        ""
        if facts.steps is None or folder.result.get("first_answer")
        else f"{count(facts.steps)} steps",
        net,
        f"{duration(facts.seconds)} on {device or 'an unknown device'}"
        if facts.seconds is not None
        else device,
    ]
    return [fact for fact in facts_in_words if fact]


def _seen(folder: RunFiles, facts: Figures) -> str:
    """Whether the error was measured on images that the net knows; nothing where none has said."""
    seen = whole(table(folder.about.get("seen")).get(facts.measured_on))
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
    notes = list(folder.notes)
    if folder.baseline is not None:
        notes += [f"Baseline: {note}" for note in folder.baseline.notes]
    return notes
