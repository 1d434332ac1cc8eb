"""Using a trained run: its model, its marks on other data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..data import DataSet, make_split
from ..data import load as load_data
from ..data.splitfile import image_hashes, learnt_from
from ..errors import DataError, UsageError
from ..judge.trust import LEVEL, Trust, measure
from ..runs.build import data_of, split_plan
from ..runs.model import Model
from ..runs.run import stored_config
from ..step.exam import Exam, Marks
from ..storage.folder import RunFolder, what_to_name
from ..storage.paths import path_of

if TYPE_CHECKING:
    from ..nets import AnyNet

BATCH = 256  # images evaluated at once


def load(path: str | Path, net: AnyNet | None = None) -> Model:
    """The model of a finished run, or of a model folder by itself.

    Where its net is code of your own, `net` is that: FILE.py:NAME, a module, or what makes one.
    """
    folder = path_of(path, "load takes a run folder, or that of a model")
    RunFolder(folder).must_be_one()
    if (folder / "run.json").exists():
        return Model.load(folder / "model", net)
    if not (folder / "model.json").exists():
        raise UsageError(f"{folder} holds neither a run nor a model. {what_to_name(folder)}")
    return Model.load(folder, net)


@dataclass(frozen=True)
class Evaluation:
    """Marks of a model on a data set's held-out part."""

    data: str
    images: int
    classes: tuple[str, ...]
    marks: Marks
    trust: Trust
    learnt_from: int = 0  # of the images, those that the run saw with their labels

    def lines(self) -> list[str]:
        """The same in words."""
        trust, seen = self.trust, self.trust.calibration.before
        low, high = (100 * bound for bound in trust.interval)
        lines = [
            f"{self.data}: error {self.marks.error:.2f} % on {self.images:,} images",
            f"accuracy {100 * trust.accuracy:.1f} %, with {100 * LEVEL:.0f} % certainty between "
            f"{low:.1f} and {high:.1f} %; as the mean over classes "
            f"{100 * trust.balanced_accuracy:.1f} %",
            f"mean confidence {100 * seen.confidence:.1f} %, expected calibration error "
            f"{100 * seen.ece:.1f} %",
        ]
        for name, one in zip(self.classes, trust.classes, strict=True):
            recall = f"recall {of(one.right, one.images)}" if one.images else "no images"
            lines.append(f"  {name}: {recall}, precision {of(one.right, one.predicted)}")
        if self.learnt_from:
            lines.append(
                f"{self.learnt_from:,} of these images are among those that the run learnt from "
                "with their labels: the figures flatter it."
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
    model = load(path, net)
    run = stored_config(RunFolder(Path(path)))
    size = model.facts.size
    if root:
        run = dataclasses.replace(run, root=root)
    found = load_data(data, Path(root) if root else None, size) if data else data_of(run, size)
    if found.classes != model.facts.classes:
        raise DataError(
            f"{found.name} has the classes {', '.join(found.classes)}; "
            f"the model knows {', '.join(model.facts.classes)}. "
            f"{found.perhaps or 'They must be the same.'}"
        )
    split = make_split(found, split_plan(run)) if not data else None
    indices = held_out(found) if split is None else split.test
    if split is not None and not len(indices):
        indices = split.validation
    if not len(indices):
        raise DataError(
            f"{found.name} has no test part with labels, so there is nothing to "
            "measure. Name labelled images by --data."
        )
    exam = Exam(found, indices)
    starts = range(0, len(exam), BATCH)
    p = torch.cat([model.probabilities(exam.images[i : i + BATCH]) for i in starts])
    trust = measure(p.numpy(), exam.labels.numpy())
    known = learnt_from(RunFolder(Path(path)).split)
    hashes = image_hashes(found)
    again = sum(hashes[i] in known for i in indices)
    return Evaluation(found.name, len(exam), found.classes, exam.mark(p), trust, again)


def held_out(data: DataSet) -> np.ndarray:
    """The test part where there is one, else everything labelled."""
    test = data.part("test")
    indices = test if len(test) else np.flatnonzero(data.labels >= 0)
    return indices[data.labels[indices] >= 0]
