"""The data that a run asks for, and what it draws from them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from .. import methods
from ..data import DataSet, OnProgress, SplitPlan, load
from ..data.splits import read_fold
from ..rules.finetune import COLOURS
from ..settings.config import Run


def data_of(run: Run, size: int | None, progress: OnProgress | None = None) -> DataSet:
    """The data of a run, with the labels that were given to it."""
    root, labels = (Path(p) if p else None for p in (run.root, run.labels))
    return normalised(load(run.data, root, size, progress, labels), run)


def normalised(data: DataSet, run: Run) -> DataSet:
    """The data with the mean and spread of colours that the run normalises by."""
    if run.normalise == "own":
        return data
    colours = COLOURS[run.normalise]
    return dataclasses.replace(data, mean=colours.mean, std=colours.std)


def split_plan(run: Run) -> SplitPlan:
    """What to draw from the data; a fully supervised run draws every label."""
    everything = methods.entry(run.method).all_labels
    return SplitPlan(
        labels_per_class=None if everything else run.labels_per_class,
        head_labelled=None if everything else run.head_labelled,
        head_unlabelled=None if everything else run.head_unlabelled,
        gamma=1.0 if everything else run.gamma,
        gamma_unlabelled=None if everything else run.gamma_unlabelled,
        validation_per_class=run.validation_per_class,
        labelled_in_pool=run.labelled_in_pool == "yes",
        seed=run.seed,
        fold=read_fold(run.fold),
    )
