"""What a run's method says of its own labelled images when it is trained without them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from ..data import DataSet, make_split
from ..data.dataset import Indices
from ..settings.config import Run
from ..storage.folder import RunFolder
from .build import split_plan
from .model import Model
from .progress import Progress
from .run import begin, one_run


def countable(labels: Indices) -> int:
    """How many labelled images the folds can hold out in turn: the only one of a class stays."""
    counts = np.bincount(labels)
    return int(counts[counts > 1].sum())


def trained_without(
    folder: RunFolder, run: Run, data: DataSet, labelled: Indices, folds: int, progress: Progress
) -> Iterator[tuple[Model, Indices]]:
    """Models of the same run without a part of its labels each, and the images of that part.

    They are trained in RUN/folds. What has finished is not trained again, what was stopped goes on.
    """
    for k in range(1, folds + 1):
        part = dataclasses.replace(run, fold=f"{k}/{folds}", baseline="none")
        place = RunFolder(folder.path / "folds" / f"{k}-of-{folds}")
        with place.held():
            if not place.record.exists():
                begin(part, place)
            progress.say(f"Fold {k} of {folds}: the same run, trained without a part of its labels")
            one_run(part, place, progress)
        without = make_split(data, split_plan(part)).validation
        yield Model.load(place.model, run.net), without[np.isin(without, labelled)]
