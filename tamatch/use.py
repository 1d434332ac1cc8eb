"""Using a trained run: its model, its marks on other data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from .build import split_plan
from .data import DataSet, make_split
from .data import load as load_data
from .errors import DataError
from .exam import Exam, Marks
from .folder import RunFolder
from .model import Model
from .run import stored_config

BATCH = 256  # images evaluated at once


def load(path: str | Path) -> Model:
    """The model of a finished run, or of a model folder by itself."""
    folder = Path(path)
    return Model.load(folder / "model" if (folder / "run.json").exists() else folder)


@dataclass(frozen=True)
class Evaluation:
    """Marks of a model on a data set's held-out part."""

    data: str
    images: int
    classes: tuple[str, ...]
    marks: Marks


def evaluate(path: str | Path, data: str | None = None, root: str | None = None) -> Evaluation:
    """Test a run's model on its own test part, or on all labelled images of other data."""
    model = load(path)
    run = stored_config(RunFolder(Path(path)))
    where = Path(root) if root else (Path(run.root) if run.root and not data else None)
    found = load_data(data or run.data, where, model.facts.size)
    if found.classes != model.facts.classes:
        raise DataError(
            f"{found.name} has the classes {', '.join(found.classes)}; "
            f"the model knows {', '.join(model.facts.classes)}."
        )
    indices = held_out(found) if data else make_split(found, split_plan(run)).test
    if not len(indices):
        raise DataError(f"{found.name} has no test part with labels: nothing to measure.")
    exam = Exam(found, indices)
    starts = range(0, len(exam), BATCH)
    rows = [model.probabilities(exam.images[i : i + BATCH]) for i in starts]
    return Evaluation(found.name, len(exam), found.classes, exam.mark(torch.cat(rows)))


def held_out(data: DataSet) -> np.ndarray:
    """The test part where there is one, else everything labelled."""
    test = data.part("test")
    indices = test if len(test) else np.flatnonzero(data.labels >= 0)
    return indices[data.labels[indices] >= 0]
