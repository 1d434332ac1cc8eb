"""Using a trained run: its model, its data, its scores on these and on others."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..data import DATASETS, UNKNOWN, DataSet, OnProgress
from ..data import load as load_data
from ..data.splitfile import still_there
from ..data.today import Today, split_today
from ..errors import DataError, UsageError
from ..judge.trust import LEVEL, Trust, measure
from ..runs.inputs import data_of, split_plan
from ..runs.lineage import learnt_by, lineage
from ..runs.model import Model
from ..runs.record import stored_config
from ..settings.config import Run
from ..step.subset import Scores, Subset
from ..storage.folder import RunFolder, folder_advice
from ..storage.paths import path_of

if TYPE_CHECKING:
    from ..nets import AnyNet


def load(path: str | Path, net: AnyNet | None = None) -> Model:
    """The model of a finished run, or of a model folder by itself.

    Where its net is code of your own, `net` is that: FILE.py:NAME, a module, or what makes one.
    """
    folder = path_of(path, "load takes a run or model folder")
    RunFolder(folder).check_one_run()
    if (folder / "run.json").exists():
        return Model.load(folder / "model", net)
    if not (folder / "model.json").exists():
        raise UsageError(
            f"{folder} is neither a run folder nor a model folder. {folder_advice(folder)}"
        )
    return Model.load(folder, net)


def own_data(
    folder: RunFolder,
    model: Model,
    *,
    data: str | None = None,
    root: str | None = None,
    progress: OnProgress | None = None,
) -> tuple[Run, DataSet]:
    """What a run was trained on, and its settings with the paths by which that is found now.

    `data` and `root` say where, if it is neither where it was nor below where the run was started.
    """
    run = stored_config(folder)
    began = str(folder.read().get("started_in", ""))
    run = dataclasses.replace(
        run,
        data=data or (run.data if run.data in DATASETS else images_again(run.data, began, folder)),
        root=root or run.root,
        labels=run.labels and labels_again(run.labels, began, folder),
    )
    found = data_of(run, model.facts.size, progress)
    if found.classes != model.facts.classes:
        raise DataError(
            f"{found.name} no longer has the classes that the model was trained on. Restore them, "
            "or train again."
        )
    return run, found


def own_split(folder: RunFolder, run: Run, data: DataSet) -> Today:
    """The roles of a run's images, as these lie today."""
    plan = split_plan(run)
    drawn = plan.labels_per_class is not None or plan.head_labelled is not None
    return split_today(folder.split, data, whole=data.given_labels and not drawn)


def found_again(path: str, began: str) -> str | None:
    """A path as a run was given it, seen from here; None if it leads nowhere."""
    return next((p for p in (path, os.path.join(began, path)) if os.path.exists(p)), None)


def images_again(path: str, began: str, folder: RunFolder) -> str:
    if found := found_again(path, began):
        return found
    raise UsageError(
        f"{folder.path} was trained on {os.path.join(began, path)}, which no longer exists. "
        "Restore it; if the images have moved, give their new folder as --data."
    )


def labels_again(path: str, began: str, folder: RunFolder) -> str:
    if found := found_again(path, began):
        return found
    raise UsageError(
        f"{folder.path} was trained with the labels in {os.path.join(began, path)}, which no "
        f"longer exists. Restore it; {folder.split} lists these labels."
    )


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on held-out images."""

    data: str
    images: int
    classes: tuple[str, ...]
    marks: Scores
    trust: Trust
    learnt_from: int = 0  # of the images, those that the run saw with their labels
    gone: int = 0  # of the run's own held-out images, those that are not there as they were
    part: str = "labelled"  # which images these are: "test", "validation" or all "labelled" ones

    def lines(self) -> list[str]:
        """The same in words."""
        trust, seen = self.trust, self.trust.calibration.before
        low, high = (100 * bound for bound in trust.interval)
        lines = [
            f"{self.data}: error {self.marks.error:.2f} % on {self.images:,} {self.part} images",
            f"accuracy {100 * trust.accuracy:.1f} %, {100 * LEVEL:.0f} % confidence interval "
            f"{low:.1f} to {high:.1f} %; mean over classes "
            f"{100 * trust.balanced_accuracy:.1f} %",
            f"mean confidence {100 * seen.confidence:.1f} %, expected calibration error "
            f"{100 * seen.ece:.1f} %",
        ]
        for name, one in zip(self.classes, trust.classes, strict=True):
            recall = f"recall {of(one.right, one.images)}" if one.images else "no images"
            lines.append(f"  {name}: {recall}, precision {of(one.right, one.predicted)}")
        if self.learnt_from:
            lines.append(
                f"{self.learnt_from:,} of these images were labelled training images of the "
                "run: the figures look too good."
            )
        if self.gone:
            lines.append(
                f"{self.gone:,} of the {self.gone + self.images:,} held-out images of the run "
                "are missing or have changed: they are left out here."
            )
        return lines


def of(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part:,} of {whole:,})" if whole else "none (0 of 0)"


def evaluate(
    path: str | Path,
    data: str | None = None,
    root: str | None = None,
    *,
    net: AnyNet | None = None,
) -> Evaluation:
    """Test a run's model on its own held-out images, or on all labelled images of other data."""
    model, folder, gone = load(path, net), RunFolder(Path(path)), 0
    if data:
        found = load_data(data, Path(root) if root else None, model.facts.size)
        found = in_classes_of(model, found)
        indices, part = held_out(found)
    else:
        _, found = own_data(folder, model, root=root)
        indices, part, gone = own_held_out(folder, found)
    if not len(indices):
        lost = f", and none of the {gone:,} images that the run held out is unchanged"
        raise DataError(
            f"{found.name} has no labelled test images{lost if gone else ''}. Give labelled images "
            "with --data."
        )
    tested = Subset(found, indices)
    p = model.probabilities(tested.images)
    trust = measure(p.numpy(), tested.labels.numpy())
    learnt = learnt_by(lineage(str(path)), found, stored_config(folder).size)
    again = int(learnt[indices].sum())
    return Evaluation(
        found.name, len(tested), found.classes, tested.score(p), trust, again, gone, part
    )


def in_classes_of(model: Model, data: DataSet) -> DataSet:
    """The data with the classes of the model, of which they may have some alone, in any order."""
    classes = model.facts.classes
    if strange := [name for name in data.classes if name not in classes]:
        raise DataError(
            f"{data.name} has the classes {', '.join(strange)}, which are not among the "
            f"classes of the model ({', '.join(classes)}). {data.hint or 'Rename or remove them.'}"
        )
    numbers = np.array([classes.index(name) for name in data.classes] + [UNKNOWN])  # -1: the last
    return dataclasses.replace(data, classes=classes, labels=numbers[data.labels])


def own_held_out(folder: RunFolder, data: DataSet) -> tuple[np.ndarray, str, int]:
    """The images that a run tested on, or else validated with; which, and how many are gone."""
    for part in ("test", "validation"):
        found, listed = still_there(folder.split, data, part)
        if listed:
            break
    return found, part, listed - len(found)


def held_out(data: DataSet) -> tuple[np.ndarray, str]:
    """The test part where there is one, else everything labelled; and which it is."""
    test = data.part("test")
    indices = test if len(test) else np.flatnonzero(data.labels >= 0)
    return indices[data.labels[indices] >= 0], "test" if len(test) else "labelled"
