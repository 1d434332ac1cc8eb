"""Cross-validation: the models of a run when it is trained without a part of its labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from ..data import DataSet, Past, Split, make_split, write_split
from ..data.dataset import Indices
from ..machine.launch import StopSignals
from ..settings.config import Run
from ..storage.folder import RunFolder, refuse_links
from .inputs import split_plan
from .jobs import Job, train_one
from .lineage import first_weights
from .model import Model
from .progress import Progress
from .record import begin


def images_to_hold_out(labels: Indices) -> int:
    """How many labelled images the folds can hold out in turn: the only one of a class stays."""
    counts = np.bincount(labels)
    return int(counts[counts > 1].sum())


def trained_without(
    folder: RunFolder, run: Run, data: DataSet, split: Split, folds: int, progress: Progress
) -> Iterator[tuple[Model, Indices]]:
    """Models of the same run without a part of its labels each, and the images of that part.

    Where the run goes on from another, which has learnt from that part as well, they begin as the
    first of them did. They are trained in RUN/folds. What has finished is not trained again, what
    was stopped goes on.
    """
    refuse_links(folder.path)
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
            train_one(Job(part, place, progress), stop)
        without = parted.validation
        yield Model.load(place.model, run.net), without[np.isin(without, split.labelled)]
