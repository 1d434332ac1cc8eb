"""A finished run again: its model, and its data where they lie now."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from ..data import DATASETS, DataSet, OnProgress
from ..data.splitfile import CurrentSplit, current_split
from ..errors import DataError, UsageError
from ..nets import AnyNet
from ..settings.config import Run
from ..settings.configure import stored_config
from ..settings.inputs import data_of, split_plan
from ..storage.files import path_of
from ..storage.folder import RunFolder, folder_advice
from .model import Model


def load(path: str | Path, net: AnyNet | None = None) -> Model:
    """The model of a finished run, or of a model folder by itself.

    `net` is its net, if that is code of your own: FILE.py:NAME, a module, or what makes one.
    """
    folder = path_of(path, "load takes a run or model folder")
    RunFolder(folder).check_one_run()
    if (folder / "run.json").exists():
        RunFolder(folder).checked("model/model.json")
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
    data: str | Path | None = None,
    root: str | Path | None = None,
    progress: OnProgress | None = None,
) -> tuple[Run, DataSet]:
    """The data of a run, at `data` and `root` if moved, and its settings with today's paths."""
    run = stored_config(folder)
    own = data or (
        run.data if run.data in DATASETS else found_again(
            f"{folder.path} was trained on", run.data, folder,
            "Restore it; if the images have moved, give their new folder as --data.",
        )
    )  # fmt: skip
    labels = run.labels and found_again(
        f"{folder.path} was trained with the labels in", run.labels, folder,
        f"Restore it; {folder.split} lists these labels.",
    )  # fmt: skip
    run = dataclasses.replace(
        run, data=str(own), root=str(root) if root else run.root, labels=labels
    )
    found = data_of(run, progress, size=model.facts.size)
    if found.classes != model.facts.classes:
        raise DataError(
            f"{found.name} no longer has the classes that the model was trained on. Restore them, "
            "or train again."
        )
    return run, found


def own_split(folder: RunFolder, run: Run, data: DataSet) -> CurrentSplit:
    """The roles of a run's images, as these are now."""
    plan = split_plan(run)
    drawn = plan.labels_per_class is not None or plan.head_labelled is not None
    return current_split(folder.checked("split.csv"), data, whole=data.given_labels and not drawn)


def found_again(what: str, path: str, folder: RunFolder, advice: str) -> str:
    """A path of a run as it is found from here, or from where the run was started."""
    if os.path.exists(there := folder.path_now(path)):
        return there
    raise UsageError(f"{what} {there}, which no longer exists. {advice}")
