"""Labels for a run's unlabelled pool, as a table that `--data` reads back.

Folds, runs that are each trained without a part of the labels, can judge its threshold.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import nets
from ..data import DATASETS, DataSet, Past, Split, make_split, write_split
from ..data.dataset import UNKNOWN, Indices
from ..data.layout import table_of
from ..data.splitfile import CurrentSplit
from ..errors import DataError, UsageError
from ..judge.trust import RISK, Cut, choose_cut, least_images
from ..kinds import FRACTION, SHARE
from ..machine.launch import StopSignals
from ..model.load import load, own_data, own_split
from ..model.model import BELONGS, Model, Predictions
from ..nets import AnyNet
from ..progress import Progress
from ..settings.config import Run
from ..settings.configure import stored_config
from ..settings.inputs import first_weights, split_plan
from ..step.source import OnHost
from ..storage.files import path_of, refuse_existing
from ..storage.folder import RunFolder, refuse_links
from ..storage.spreadsheet import read_rows, write_table
from .end import ODD
from .jobs import train_all
from .record import begin
from .start import Job

COLUMNS = ("file_name", "label", "confidence", "second", "accepted")
GIVEN = "given"  # in the last column: by a person

SHOWN = 10  # of the most and of the least frequent classes, if there are more than twice as many


def line(
    data: DataSet, i: int, p: np.ndarray, best: int, how: str, *, named: bool = True
) -> tuple[str, ...]:
    """One line of the table; the second guess is the most probable class but the first."""
    others = np.delete(np.arange(len(p)), best)
    second = data.classes[others[p[others].argmax()]] if len(others) else ""
    return data.files[i], data.classes[best] if named else "", f"{p[best]:.6f}", second, how


def is_label_table(path: Path) -> bool:
    """Whether a file has the columns of this table, and no others."""
    with path.open("rb") as file:
        found = file.readline(100).strip().decode(errors="replace")
    return found in (",".join(COLUMNS), ",".join((*COLUMNS, BELONGS)))


def by_model(tables: Iterable[Path]) -> set[str]:
    """Files whose label an earlier `label` wrote into such a table: no person gave them."""
    found = set()
    for table in tables:
        try:
            rows = [*read_rows(table, "file_name", "accepted")]
        except DataError:  # not a table of ours
            continue
        found |= {row["file_name"] for row in rows if row["accepted"] != GIVEN}
    return found


def of_run(folder: RunFolder, column: str) -> dict[str, str]:
    """A column of the run's own table of its pool, by file; what is not known is left out."""
    table = folder.checked("predictions/pool.csv")
    try:
        found = {row["image"]: row[column] for row in read_rows(table, "image", column)}
    except DataError:
        return {}
    return {image: value for image, value in found.items() if value}


def accepted(folder: RunFolder) -> dict[str, str]:
    """Whether each image was ever accepted as a pseudo-label, by file; empty where unknown."""
    times = of_run(folder, "accepted")
    return {image: "no" if n == "0" else "yes" for image, n in times.items()}


def images_to_hold_out(labels: Indices) -> int:
    """How many labelled images the folds can hold out in turn: the only one of a class stays."""
    counts = np.bincount(labels)
    return int(counts[counts > 1].sum())


def kept_run(folder: RunFolder, run: Run) -> Run:
    """The run, or its first answer, where that was kept instead of the tuned net."""
    tuning = folder.read_result().get("tuning")
    return run if tuning is None or tuning["kept"] else stored_config(folder.first)


def trained_without(
    folder: RunFolder, run: Run, data: DataSet, split: Split, folds: int, progress: Progress
) -> Iterator[tuple[Model, Indices]]:
    """Models of the same run without a part of its labels each, and the images of that part.

    They are trained in RUN/folds, from the weights that the first run of the lineage began with, as
    these know no label. What has finished is not trained again, what was stopped goes on.
    """
    refuse_links(folder.path)
    run = kept_run(folder, run)
    afresh = dataclasses.replace(run, baseline="none", from_=None, weights=first_weights(folder))
    stop = StopSignals()
    validating = np.isin(np.arange(len(data.files)), split.validation)
    for k in range(1, folds + 1):
        part = dataclasses.replace(afresh, fold=f"{k}/{folds}")
        past = Past(learnt=np.zeros_like(validating), held_out=validating)
        parted = make_split(data, split_plan(part), past)
        place = RunFolder(folder.path / "folds" / f"{k}-of-{folds}")
        with place.held():
            if not place.record.exists():
                begin(part, place)
            if not place.split.exists():
                write_split(place.split, data, parted)
            progress.say(f"Fold {k} of {folds}: the same run, trained without part of its labels")
            train_all([Job(part, place, progress)], stop)
        without = parted.validation
        yield Model.load(place.model, run.net), without[np.isin(without, split.labelled)]


@dataclass(frozen=True)
class Labelled:
    """What was written: images of the pool, how many of them got a label, and from where on."""

    path: Path
    pool: int
    labelled: int
    given: int  # images that had their label before; they are in the table, too
    confidence: float
    cut: Cut | None  # where it was chosen for a precision
    folds: int | None = None  # of the labelled images, where these judged the cut
    changes: tuple[str, ...] = ()  # of the images since the run, in words
    classes: Mapping[str, int] = field(default_factory=dict)  # the new labels of each class
    odd: int | None = None  # images of the pool that rather belong to no class, where it is known

    @property
    def coverage(self) -> float:
        """The share of the pool that got a label."""
        return self.labelled / self.pool if self.pool else 0.0

    def lines(self) -> list[str]:
        """The same in words."""
        if not self.pool:
            had = f"all {self.given:,} images already had a label"
            return [f"{self.path}: there are no unlabelled images, {had}.", *self.changes]
        lines = [
            f"{self.path}: {self.labelled:,} of {self.pool:,} unlabelled images now have a label "
            f"(coverage {100 * self.coverage:.1f} %). {self.given:,} already had one."
        ]
        lines.append(f"New labels by class: {most_first(self.classes)}.")
        if self.odd:
            lines.append(
                f"{self.odd:,} of the unlabelled images rather belong to none of the classes: "
                f"their {BELONGS} is below {ODD:g}."
            )
        if self.confidence:
            lines.append(f"Labels with a confidence below {self.confidence:.4f} are left empty.")
        if self.cut is not None:
            judges = "labelled images" if self.folds else "validation images"
            how = ", each held out once," if self.folds else ""
            lines.append(
                f"{self.cut.right:,} of {self.cut.images:,} {judges}{how} at or above that are "
                f"correct. With {100 * (1 - RISK):.0f} % confidence, at least "
                f"{100 * self.cut.precision:.1f} % of such labels are, if the pool is like the "
                f"{judges}."
            )
        return [*lines, *self.changes]


def label(
    path: str | Path,
    out: str | Path,
    *,
    min_confidence: float | None = None,
    precision: float | None = None,
    folds: int | None = None,
    overwrite: bool = False,
    quiet: bool = True,
    net: AnyNet | None = None,
    data: str | Path | None = None,
) -> Labelled:
    """Write the label of every image of a run's pool; below a confidence threshold it stays empty.

    The threshold is `min_confidence`, or one above which at least the share `precision` of labels
    is right: by the run's validation images or, with `folds`, by its labelled images, each judged
    by one of so many models trained without it. `data` is where the run's images lie now, if moved.
    """
    check_options(min_confidence, precision, folds)
    place = path_of(out, "out takes a CSV file to write")
    folder = RunFolder(path_of(path, "label takes a run folder"))
    if place.is_file() and not is_label_table(place):  # it may hold labels that a person gave
        raise UsageError(
            f"{place} already exists and was not written by `tamatch label`. Choose a different "
            "--out."
        )
    refuse_existing(place, is_folder=False, overwrite=overwrite)
    folder.read()  # says what is wrong where this is no run
    model = load(folder.path, net)
    run, images = own_data(folder, model, data=data)
    nets.CUSTOM.register_as(run.net, net)
    current = own_split(folder, run, images)
    split = current.split

    cut = None
    if precision and folds:
        progress = Progress(folder.log, quiet=quiet)
        held_out = trained_without(folder, run, images, split, folds, progress)
        cut = cut_by_folds(model, images, split, precision, held_out)
    elif precision:
        cut = cut_by_validation(model, images, split, precision, folder)
    level = cut.confidence if cut else min_confidence or 0.0
    given, pool = given_and_pool(run, images, current)
    of_given, of_pool = (predictions(model, images, part) for part in (given, pool))
    p_given, p_pool = of_given.probabilities, of_pool.probabilities
    used = accepted(folder)
    sure = p_pool.max(-1) >= level
    rows = [
        line(images, i, p, int(images.labels[i]), GIVEN)
        for i, p in zip(given, p_given, strict=True)
    ]
    rows += [
        line(images, i, p, int(p.argmax()), used.get(images.files[i], ""), named=bool(keep))
        for i, p, keep in zip(pool, p_pool, sure, strict=True)
    ]
    columns: tuple[str, ...] = COLUMNS
    belongs = None
    if of_pool.belongs is not None:  # the run itself knows more of images that it has seen
        seen, columns = of_run(folder, BELONGS), (*COLUMNS, BELONGS)
        told = zip((images.files[i] for i in pool), of_pool.belongs, strict=True)
        belongs = np.array([float(seen.get(file, own)) for file, own in told])
        shares = [*np.ones(len(given)), *belongs]
        rows = [(*row, f"{share:.6f}") for row, share in zip(rows, shares, strict=True)]
    write_table(place, columns, rows)
    counts = np.bincount(p_pool[sure].argmax(-1), minlength=len(images.classes))
    return Labelled(
        place, len(pool), int(sure.sum()), len(given), level, cut, folds, tuple(current.lines()),
        dict(zip(images.classes, counts.tolist(), strict=True)),
        None if belongs is None else int((belongs < ODD).sum()),
    )  # fmt: skip


def given_and_pool(run: Run, images: DataSet, current: CurrentSplit) -> tuple[Indices, Indices]:
    """The images labelled by a person, also since the run, and those that the model labels."""
    split = current.split
    every = np.concatenate([split.known, split.unknown])
    since = np.isin(every, current.labelled_since)
    own = None if run.data in DATASETS else table_of(run.data)
    guessed = by_model(table for table in (own, run.labels and Path(run.labels)) if table)
    known = np.isin(every, split.known) | since
    known &= ~(since & np.array([images.files[i] in guessed for i in every], bool))
    return every[known], every[~known]


def most_first(classes: Mapping[str, int]) -> str:
    """Classes and their counts: a class that the model gives nothing to is easily overlooked."""
    shown = [f"{name} {count:,}" for name, count in Counter(classes).most_common()]
    if len(shown) > 2 * SHOWN:
        shown = [*shown[:SHOWN], "…", *shown[-SHOWN:]]
    return ", ".join(shown)


def check_options(min_confidence: float | None, precision: float | None, folds: int | None) -> None:
    for name, value, bounds in (
        ("--min-confidence", min_confidence, SHARE),
        ("--precision", precision, FRACTION),
    ):
        if value is not None and value not in bounds:
            raise UsageError(f"{name} must {bounds}, got {value:g}.")
    if folds is not None and precision is None:
        raise UsageError(
            "--folds needs --precision: it sets how the confidence threshold is chosen."
        )
    if folds is not None and folds < 2:
        raise UsageError(f"--folds must be at least 2, got {folds}.")


def predictions(model: Model, data: DataSet, indices: np.ndarray) -> Predictions:
    """What the model says about these images."""
    return model.predictions(OnHost(data.images, indices, channels_last=True))


def cut_by_validation(
    model: Model, data: DataSet, split: Split, precision: float, folder: RunFolder
) -> Cut:
    """The cut that the run's validation images support."""
    need, have = least_images(precision), 0 if folder.lends_labels else len(split.validation)
    if have < need:
        raise DataError(
            f"--precision {precision:g} needs at least {need:,} validation images, even if the "
            f"model classifies all of them correctly; {folder.path} has {have or 'none'}. "
            f"{ways_out(data, split, need)}"
        )
    p = predictions(model, data, split.validation).probabilities
    right = p.argmax(-1) == data.labels[split.validation]
    return choose_cut(p.max(-1), right, precision)


def ways_out(data: DataSet, split: Split, need: int) -> str:
    """How the run could get that many images to judge a cut by, as far as its labels suffice."""
    each = math.ceil(need / len(data.classes))
    known = data.labels[data.part("train")]
    fewest = np.bincount(known[known != UNKNOWN], minlength=len(data.classes)).min()
    ways = []
    if fewest > each:
        ways.append(f"Train with --validation-per-class {each:,} or more")
    if images_to_hold_out(data.labels[split.labelled]) >= need:
        ways.append("use the labelled images (--folds 5, which trains five more runs)")
    ways = ways or ["Label more images (`tamatch review`)"]
    return ", or ".join([*ways, "set the confidence threshold yourself: --min-confidence."])


def cut_by_folds(
    model: Model,
    data: DataSet,
    split: Split,
    precision: float,
    folds: Iterable[tuple[Model, Indices]],
) -> Cut:
    """The cut that labelled images support, each judged by the model of a fold without it."""
    need, have = least_images(precision), images_to_hold_out(data.labels[split.labelled])
    if have < need:
        raise DataError(
            f"--precision {precision:g} needs at least {need:,} labelled images to hold out, even "
            f"if the models classify all of them correctly; the run has {have:,}. Label more "
            "images, lower --precision, or set the confidence threshold yourself: "
            "--min-confidence."
        )
    confidence, right = [], []
    for other, images in folds:
        facts = dataclasses.replace(other.facts, temperature=model.facts.temperature)
        p = predictions(Model(facts, other.net), data, images).probabilities
        confidence.append(p.max(-1))
        right.append(p.argmax(-1) == data.labels[images])
    return choose_cut(
        np.concatenate(confidence), np.concatenate(right), precision, "labelled images"
    )
