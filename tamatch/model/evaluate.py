"""The model of a run, tested on the run's own held-out images or on others."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data import UNKNOWN, DataSet
from ..data import load as load_data
from ..data.splitfile import still_there
from ..errors import DataError
from ..judge.figures import LEVEL, Trust
from ..judge.trust import measure
from ..nets import AnyNet
from ..settings.configure import stored_config
from ..settings.inputs import learnt_by, lineage
from ..step.source import Subset
from ..storage.folder import RunFolder
from .load import load, own_data
from .model import Model


@dataclass(frozen=True)
class Evaluation:
    """Scores of a model on held-out images."""

    data: str
    classes: tuple[str, ...]
    trust: Trust
    part: str  # which images these are: "test", "validation" or all "labelled" ones
    learnt_from: int  # of the images, those that the run saw with their labels
    gone: int  # of the run's own held-out images, those that are not there as they were

    @property
    def images(self) -> int:
        """How many there were."""
        return self.trust.images

    @property
    def error(self) -> float:
        """In percent."""
        return 100 * (1 - self.trust.accuracy)

    @property
    def per_class(self) -> list[float | None]:
        """The accuracy of each class in percent; None for one that is not among the images."""
        return [100 * c.right / c.images if c.images else None for c in self.trust.classes]

    def to_json(self) -> dict[str, Any]:
        """The figures as `tamatch evaluate --json` prints them."""
        return {
            "data": self.data,
            "images": self.images,
            "part": self.part,
            "error": self.error,
            "accuracy": self.trust.accuracy,
            "interval": self.trust.interval,
            "balanced_accuracy": self.trust.balanced_accuracy,
            "ece": self.trust.calibration.before.ece,
            "learnt_from": self.learnt_from,
            "gone": self.gone,
            "per_class_accuracy": dict(zip(self.classes, self.per_class, strict=True)),
        }

    def lines(self) -> list[str]:
        """The same in words."""
        trust, seen = self.trust, self.trust.calibration.before
        low, high = (100 * bound for bound in trust.interval)
        lines = [
            f"{self.data}: error {self.error:.2f} % on {self.images:,} {self.part} images",
            f"accuracy {100 * trust.accuracy:.1f} %, {100 * LEVEL:.0f} % confidence interval "
            f"{low:.1f} to {high:.1f} %; mean over classes "
            f"{100 * trust.balanced_accuracy:.1f} %",
            f"mean confidence {100 * seen.confidence:.1f} %, expected calibration error "
            f"{100 * seen.ece:.1f} %",
        ]
        for name, one in zip(self.classes, trust.classes, strict=True):
            recall = f"recall {share(one.right, one.images)}" if one.images else "no images"
            lines.append(f"  {name}: {recall}, precision {share(one.right, one.predicted)}")
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


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part:,} of {whole:,})" if whole else "none (0 of 0)"


def evaluate(
    path: str | Path,
    data: str | Path | None = None,
    root: str | Path | None = None,
    *,
    net: AnyNet | None = None,
) -> Evaluation:
    """Test a run's model on its own held-out images, or on all labelled images of other data."""
    model, folder, gone = load(path, net), RunFolder(Path(path)), 0
    if data:
        found = load_data(data, Path(root) if root else None, model.facts.size)
        found = in_classes_of(model, found)
        test = found.part("test")
        indices, part = (test, "test") if len(test) else (np.arange(len(found.labels)), "labelled")
        indices = indices[found.labels[indices] >= 0]
    else:
        _, found = own_data(folder, model, root=root)
        for part in ("test",) if folder.lends_labels else ("test", "validation"):
            indices, listed = still_there(folder.checked("split.csv"), found, part)
            if listed:
                break
        gone = listed - len(indices)
    if not len(indices):
        lost = f", and none of the {gone:,} images that the run held out is unchanged"
        raise DataError(
            f"{found.name} has no labelled test images{lost if gone else ''}. Give labelled images "
            f"with --data.{expected(folder)}"
        )
    tested = Subset(found, indices)
    p = model.probabilities(tested.images)
    trust = measure(p.numpy(), tested.labels.numpy())
    learnt = learnt_by(lineage(str(path)), found, stored_config(folder).size)
    again = int(learnt[indices].sum())
    return Evaluation(found.name, found.classes, trust, part, again, gone)


def expected(folder: RunFolder) -> str:
    """What a first answer tells of its error by cross-validation, if it does."""
    known = folder.read_result().get("first_answer") if folder.result.exists() else None
    if not (known and known.get("cross_validation")):
        return ""
    found = known["cross_validation"]
    low, high = found["interval"]
    return (
        f" On {found['labels']:,} labels, each held out once, the error was {found['error']:.1f} % "
        f"({low:.1f} to {high:.1f} %)."
    )


def in_classes_of(model: Model, data: DataSet) -> DataSet:
    """The data with labels by the model's classes; they may have fewer, in any order."""
    classes = model.facts.classes
    if strange := [name for name in data.classes if name not in classes]:
        raise DataError(
            f"{data.name} has the classes {', '.join(strange)}, which are not among the "
            f"classes of the model ({', '.join(classes)}). {data.hint or 'Rename or remove them.'}"
        )
    numbers = np.array([classes.index(name) for name in data.classes] + [UNKNOWN])  # -1: the last
    return dataclasses.replace(data, classes=classes, labels=numbers[data.labels])
