"""The data that a run asks for, how they are split, and what earlier runs did with them."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .. import methods, nets
from ..data import DataSet, OnProgress, Past, Split, SplitPlan, load, make_split, make_split_again
from ..data.splitfile import image_hashes, listed_in
from ..data.splits import Mask, read_fold
from ..errors import DataError
from ..nets.pretrained import is_published
from ..rules.finetune import COLOURS
from ..storage.folder import RunFolder
from .config import Run

HIDING = (  # options that hide labels, or images with them
    "labels_per_class", "head_labelled", "head_unlabelled", "gamma", "gamma_unlabelled",
    "pool_shape",
)  # fmt: skip


def data_of(
    run: Run,
    progress: OnProgress | None = None,
    *,
    size: int | None = None,
    normalise: str | None = None,
) -> DataSet:
    """The data of a run with their labels; `size` and `normalise` replace the run's own."""
    root, labels = (Path(p) if p else None for p in (run.root, run.labels))
    data = load(run.data, root, size or run.size, progress, labels)
    return normalised(data, normalise or run.normalise)


def normalised(data: DataSet, normalise: str) -> DataSet:
    """The data with the mean and spread of colours that `--normalise` names."""
    if normalise == "own":
        return data
    colours = COLOURS[normalise]
    return dataclasses.replace(data, mean=colours.mean, std=colours.std)


def plan_of(settings: Mapping[str, Any]) -> SplitPlan:
    """What these settings draw from the data, by the names that a run has for them."""
    plan = {f.name: settings[f.name] for f in dataclasses.fields(SplitPlan) if f.name in settings}
    if "labelled_in_pool" in plan:
        plan["labelled_in_pool"] = plan["labelled_in_pool"] == "yes"
    return SplitPlan(**plan | {"fold": read_fold(settings.get("fold"))})


def split_plan(run: Run) -> SplitPlan:
    """What a run draws from the data; a fully supervised one draws every label."""
    every = HIDING if methods.entry(run.method).all_labels else ()
    return plan_of({name: value for name, value in vars(run).items() if name not in every})


def lineage(start: str | None) -> list[RunFolder]:
    """The run in this folder, the run it started from and so on, as far as the folders exist."""
    found: dict[Path, RunFolder] = {}
    while start is not None and (folder := RunFolder(Path(start))).holds_run():
        if folder.path.resolve() in found:
            break
        found[folder.path.resolve()] = folder
        start = path_in_config(folder, "from_")
    return [*found.values()]


def path_in_config(folder: RunFolder, name: str) -> str | None:
    """A path among a run's settings, as it is now."""
    path: str | None = folder.read()["config"].get(name)
    return None if path is None else folder.path_now(path)


def first_weights(folder: RunFolder) -> str | None:
    """The initial weights of the first run in the lineage; None for random ones."""
    first = lineage(str(folder.path))[-1]
    if gone := path_in_config(first, "from_"):
        raise DataError(
            f"{folder.path} was trained from {gone}, which no longer exists, so the initial "
            "weights of its net are unknown. Restore it, use validation images (leave out "
            "--folds), or set the confidence threshold yourself: --min-confidence."
        )
    weights: str | None = first.read()["config"].get("weights")
    if weights is None or is_published(weights):
        return weights
    return first.path_now(weights)


def past_of(runs: Sequence[RunFolder], data: DataSet, size: int | None) -> Past:
    """What these runs did with the images of the data, which have this --size."""
    learnt, held_out = np.zeros((2, len(data.files)), bool)
    names = {"image": list(data.files), "hash": image_hashes(data)}
    for folder in runs:
        # an image of another size has another hash, so that only its file tells
        column = "hash" if folder.read()["config"].get("size") == size else "image"
        roles = listed_in(folder.checked("split.csv"), column)
        learnt |= [name in roles["labelled"] for name in names[column]]
        validated = np.array([name in roles["validation"] for name in names[column]], bool)
        if folder.lends_labels:
            learnt |= validated
        held_out |= validated
    return Past(learnt, held_out & ~learnt)


def learnt_by(runs: Sequence[RunFolder], data: DataSet, size: int | None) -> Mask:
    """Which images these runs were trained on; a run without split.csv is ignored."""
    learnt = np.zeros(len(data.files), bool)
    for folder in runs:
        with suppress(DataError):
            learnt |= past_of([folder], data, size).learnt
    return learnt


def split_of(run: Run, data: DataSet, size: int | None, before: Path | None = None) -> Split:
    """The split of a run on images of this `--size`.

    Where `before` is the split.csv of the run, the same images are held out again.
    """
    plan = split_plan(run)
    held_out: set[str] | None = None
    if before is not None:
        with suppress(DataError):  # not there yet, or damaged: `record_facts` says so later
            held_out = listed_in(before, "image")["validation"]
    if held_out is not None:
        return make_split_again(data, plan, np.array([f in held_out for f in data.files], bool))
    takes_over = not nets.begins_anew(run.net) and (plan.validation_per_class or plan.fold)
    earlier = lineage(run.from_) if takes_over else []
    past = past_of(earlier, data, size) if earlier else None
    if past and plan.fold:  # another draw would hold out what the earlier runs have learnt
        return make_split_again(data, plan, past.held_out)
    return make_split(data, plan, past)
