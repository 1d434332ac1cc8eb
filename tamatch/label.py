"""Labels for a run's unlabelled pool, as a table that `--data` reads back."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from . import checkpoint, methods, nets
from .build import task_of
from .config import Run
from .cut import RISK, Cut, choose_cut
from .data import DataSet, Split, read_split
from .data import load as load_data
from .data.cells import neutralise
from .errors import DataError, UsageError
from .files import write_bytes
from .folder import RunFolder
from .kinds import FRACTION, SHARE
from .model import Model
from .run import stored_config
from .use import load

COLUMNS = ("file_name", "label", "confidence", "second", "accepted")
BATCH = 256  # images predicted together


@dataclass(frozen=True)
class Labelled:
    """What was written: images of the pool, how many of them got a label, and from where on."""

    path: Path
    pool: int
    labelled: int
    given: int  # images that had their label before; they are in the table, too
    confidence: float
    cut: Cut | None  # where it was chosen for a precision

    @property
    def coverage(self) -> float:
        return self.labelled / self.pool if self.pool else 0.0

    def lines(self) -> list[str]:
        """The same in words."""
        lines = [
            f"{self.path}: {self.labelled:,} of {self.pool:,} unlabelled images have a label now, "
            f"a coverage of {100 * self.coverage:.1f} %. {self.given:,} had theirs before."
        ]
        if self.confidence:
            lines.append(f"Labels with a confidence below {self.confidence:.4f} are left empty.")
        if self.cut is not None:
            lines.append(
                f"{self.cut.right:,} of {self.cut.images:,} validation images at or above that are "
                f"right. With {100 * (1 - RISK):.0f} % certainty, at least "
                f"{100 * self.cut.precision:.1f} % of such labels are, if the pool is like the "
                "validation images."
            )
        return lines


def label(
    path: str | Path,
    out: str | Path,
    *,
    min_confidence: float | None = None,
    precision: float | None = None,
    overwrite: bool = False,
) -> Labelled:
    """Write the label of every image of a run's pool; below the cut it stays empty.

    The cut is `min_confidence`, or is chosen on the run's validation images such that at least
    the share `precision` of the labels is right.
    """
    check_options(min_confidence, precision)
    place, folder = Path(out), RunFolder(Path(path))
    if place.exists() and not (overwrite and place.is_file()):
        raise UsageError(f"{place} exists already. Use another --out, or --overwrite.")
    run, model = stored_config(folder), load(folder.path)
    data = load_data(run.data, Path(run.root) if run.root else None, model.facts.size)
    if data.classes != model.facts.classes:
        raise DataError(f"{data.name} no longer has the classes that the model was trained on.")
    split = read_split(folder.split, data)

    cut = supported_cut(model, data, split, precision, folder) if precision else None
    level = cut.confidence if cut else min_confidence or 0.0
    given = np.concatenate([split.labelled, split.validation])
    pool = split.unlabelled[~np.isin(split.unlabelled, given)]
    p_given, p_pool = (probabilities(model, data, part) for part in (given, pool))
    used = accepted(run, data, split, folder, p_pool, p_given[: len(split.labelled)])
    sure = p_pool.max(-1) >= level
    rows = [
        line(data, i, p, int(data.labels[i]), "given") for i, p in zip(given, p_given, strict=True)
    ]
    rows += [
        line(data, i, p, int(p.argmax()), how, named=bool(keep))
        for i, p, how, keep in zip(pool, p_pool, used, sure, strict=True)
    ]
    write_table(place, rows)
    return Labelled(place, len(pool), int(sure.sum()), len(given), level, cut)


def check_options(min_confidence: float | None, precision: float | None) -> None:
    for name, value, bounds in (
        ("--min-confidence", min_confidence, SHARE),
        ("--precision", precision, FRACTION),
    ):
        if value is not None and value not in bounds:
            raise UsageError(f"{name} must {bounds}, got {value:g}.")


def line(
    data: DataSet, i: int, p: np.ndarray, best: int, how: str, *, named: bool = True
) -> tuple[str, ...]:
    """One line of the table; the second guess is the most probable class but the first."""
    others = np.delete(np.arange(len(p)), best)
    second = data.classes[others[p[others].argmax()]] if len(others) else ""
    words = (data.files[i], data.classes[best] if named else "", second)
    file, name, other = (neutralise(word) for word in words)
    return file, name, f"{p[best]:.6f}", other, how


def write_table(place: Path, rows: list[tuple[str, ...]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *rows])
    write_bytes(place, text.getvalue().encode())


def probabilities(model: Model, data: DataSet, indices: np.ndarray) -> np.ndarray:
    """(n, C) of these images."""
    parts = [indices[i : i + BATCH] for i in range(0, len(indices), BATCH)]
    pixels = (torch.from_numpy(data.images[part]).permute(0, 3, 1, 2) for part in parts)
    empty = np.empty((0, len(data.classes)), np.float32)
    return np.concatenate([empty, *(model.probabilities(p).numpy() for p in pixels)])


def supported_cut(
    model: Model, data: DataSet, split: Split, precision: float, folder: RunFolder
) -> Cut:
    """The cut that the run's validation images support."""
    if not len(split.validation):
        raise DataError(
            f"--precision needs validation images, and {folder.path} has none. Train with "
            "--validation-per-class N, or set the cut yourself: --min-confidence."
        )
    p = probabilities(model, data, split.validation)
    right = p.argmax(-1) == data.labels[split.validation]
    return choose_cut(p.max(-1), right, precision, len(data.classes))


def accepted(
    run: Run, data: DataSet, split: Split, folder: RunFolder, p_pool: np.ndarray, p_x: np.ndarray
) -> list[str]:
    """Would the method have learnt from these images, had the run gone on? yes, no, or unknown.

    The rule is the method's own, with its statistics as the run left them, applied to what the
    finished model says of the images as they are. Empty where the method has no such rule or the
    last checkpoint is gone.
    """
    unknown = [""] * len(p_pool)
    state, _ = checkpoint.newest(folder.checkpoints)
    if state is None or not len(p_pool):
        return unknown
    net = nets.build(run.net, len(data.classes), data.size)
    method = methods.get(run.method)(net, task_of(run, data, split), ema=run.ema, **run.options)
    labeler = getattr(method, "labeler", None)
    if labeler is None:
        return unknown
    method.load_state_dict(state["engine"]["method"])
    logits, logits_x = (torch.from_numpy(p).log() for p in (p_pool, p_x))
    mask = labeler(logits, logits_x, torch.arange(len(logits)), learn=False).mask
    return ["yes" if m else "no" for m in mask.tolist()]
