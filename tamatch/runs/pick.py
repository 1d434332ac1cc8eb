"""`tamatch pick`: the images of a folder that are worth a label, the most telling first."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..data import DATASETS, UNKNOWN, DataSet, load, own_path
from ..data.check import counted
from ..data.folder import typical_side
from ..data.labels import DRAWN, DRAWN_CELL, LABEL, NAME, TABLES
from ..data.layout import SHOWN, table_of
from ..errors import DataError, UsageError
from ..frozen.blocks import telling
from ..frozen.choose import CROWD, choose, doubts, sample
from ..frozen.junk import solve_with_junk
from ..progress import counting
from ..settings.configure import stored_config
from ..settings.hardware import pick_device
from ..storage.files import path_of, refuse_existing
from ..storage.folder import RunFolder
from ..storage.spreadsheet import write_table
from .first_answer import features, few_threads
from .first_settings import CPU_WEIGHTS, GPU_WEIGHTS, best_look


@dataclass(frozen=True)
class Picked:
    """Images to label, the most telling first."""

    files: tuple[str, ...]  # relative to the folder; those that are drawn at random come last
    pool: int  # images without a label
    labels: int  # that were there already
    table: Path | None  # with a column to fill in, …
    then: str = ""  # … and what to do with it then
    drawn: int = 0  # images at the end of the list that are drawn at random
    remarks: tuple[str, ...] = ()  # on files left out, and folders that may be no classes

    def lines(self) -> list[str]:
        """The list for the terminal; where there is a table, only a word on it."""
        if self.table is None:
            return [*self.files]
        lots = f"; the last {self.drawn:,} are drawn at random" if self.drawn else ""
        return [
            f"{self.table}: {len(self.files):,} of {self.pool:,} images without a label, the most "
            f"telling first{lots}. Fill in the column {LABEL}, then {self.then}."
        ]


def pick(
    place: str | Path,
    count: int = 50,
    csv: str | Path | None = None,
    *,
    drawn: int = 0,
    labels: str | Path | None = None,
    weights: str | None = None,
    device: str = "auto",
    overwrite: bool = False,
) -> Picked:
    """The `count` images of a folder, or of a run's data, that are most worth a label.

    Without labels they are the most typical ones that differ from each other. With labels of at
    least two classes, those images count that the labels leave in doubt. `drawn` images more are
    drawn at random: a first answer estimates its error by these alone. `labels` is a table of
    labels; `csv` a table to write, with an empty column for them; `weights` are those of the net
    that looks at the images.
    """
    if count < 1:
        raise UsageError(f"--count must be at least 1, got {count}.")
    if drawn < 0:
        raise UsageError(f"--drawn must be at least 0, got {drawn}.")
    table = None if csv is None else path_of(csv, "csv takes a CSV file to write")
    if table is not None:
        refuse_existing(table, is_folder=False, overwrite=overwrite, option="--csv")
    given = None if labels is None else path_of(labels, "labels takes a CSV file")
    name, added = own_images(place, "pick")
    data, rows, upper = looked_at(own_path(name), given or added, weights, pick_device(device))
    here = np.sort(np.concatenate([data.part("train"), data.part("unlabelled")]))
    known = torch.from_numpy(data.labels[here])
    left = int((known == UNKNOWN).sum())
    if not left:
        raise DataError(f"all images in {name} already have a label: there are none to pick.")
    with few_threads(len(rows)):
        order = most_telling(telling(rows[here], known, upper), known, count).numpy()
    others = np.setdiff1d(np.flatnonzero(known == UNKNOWN), order)
    lots = np.random.default_rng(len(here) - left).permutation(others)[:drawn]
    files = tuple(data.files[i] for i in here[np.concatenate([order, lots])])
    if table is not None:
        lines = [(file, "", DRAWN_CELL[k >= len(order)]) for k, file in enumerate(files)]
        write_table(table, (NAME, LABEL, DRAWN), lines)
    first = f"save it as {Path(name) / TABLES[0]}"  # which then names the classes
    then = "give it as --labels" if data.classes else first
    remarks = [f"{left_out(name, len(data.skipped))}."] if data.skipped else []
    remarks += [] if given or added else folders_as_classes(Path(name), data)
    return Picked(files, left, len(here) - left, table, then, len(lots), tuple(remarks))


def left_out(name: str, files: int) -> str:
    """Words on files of a folder that cannot be used."""
    check = shlex.join(["tamatch", "check", name])
    return f"{counted(files, 'file', 'files')} left out (`{check}` says why)"


def own_images(place: str | Path, command: str) -> tuple[str, Path | None]:
    """Where a folder's or a run's images lie, and the table of the run's added labels."""
    folder = RunFolder(path_of(place, f"{command} takes a folder of images or a run folder"))
    name, labels = str(place), None
    if folder.holds_run():
        run = stored_config(folder)
        name = run.data if run.data in DATASETS else folder.path_now(run.data)
        labels = Path(folder.path_now(run.labels)) if run.labels else None
    if name in DATASETS:
        raise UsageError(f"{name} is fully labelled: `tamatch {command}` is for your own images.")
    return name, labels


def folders_as_classes(place: Path, data: DataSet) -> list[str]:
    """A remark where images lie beside folders that were read as classes: these may be dates."""
    labels = data.labels[data.part("train")]
    beside = any("/" not in data.files[i] for i in data.part("unlabelled"))
    if table_of(place) is not None or not beside or not len(labels):
        return []
    named = ", ".join(data.classes[c] for c in np.unique(labels))[:SHOWN]
    return [
        f"The folders in {place} are read as classes: {named}. If they are none, write "
        f"{place / TABLES[0]} with the line file_name,label: then no image has a label."
    ]


def looked_at(
    place: Path, labels: Path | None, weights: str | None, device: torch.device
) -> tuple[DataSet, Tensor, int]:
    """All images of a place, also those in no class folder, and their features.

    Of these, so many, the first ones, are of the net's last block.
    """
    weights = weights or (GPU_WEIGHTS if device.type == "cuda" else CPU_WEIGHTS)

    def read(size: int) -> DataSet:
        with counting("reading images") as progress:
            return load(place, None, size, progress, labels, loose=True)

    side = None
    if place.suffix != ".npz" and (side := typical_side(place, loose=True)) is None:
        load(place, loose=True)  # says that there are no images, before any weights are fetched
    look, _ = best_look(weights, read, side, device)
    return look.data, features(look.net, look.data), look.net.upper


def most_telling(rows: Tensor, labels: Tensor, count: int) -> Tensor:
    """Positions of images without a label; what the labels leave in doubt counts, if they can."""
    known = (labels != UNKNOWN).nonzero()[:, 0]
    crowd = sample(len(rows), CROWD + len(known), known)
    classes, y = torch.unique(labels[known], return_inverse=True)
    doubt = None
    if len(classes) > 1:
        others = crowd[labels[crowd] == UNKNOWN]
        found = solve_with_junk(rows[known], y, rows[others], len(classes))
        doubt = torch.zeros(len(rows))
        doubt[others] = (doubts(found.solution.q) * found.weight).float()
    return choose(rows, count, known, doubt)
