"""Held-out images and the marks a net gets on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor

from ..data import UNKNOWN, DataSet, Split
from ..data.dataset import Indices, Pixels
from .source import OnHost, to_device

LINE = ("image", "label", "predicted", "confidence")  # columns of a table of predictions


@dataclass(frozen=True)
class Marks:
    """Error and accuracy by class, in percent; None for a class that is not among the images."""

    error: float
    per_class: list[float | None]


class Exam:
    """A part of the data that is never trained on; without a device its images stay on the host."""

    def __init__(self, data: DataSet, indices: Indices, device: torch.device | None = None) -> None:
        self.data, self.indices = data, indices
        self.images: Tensor | OnHost = (
            OnHost(data.images, indices)
            if device is None
            else to_device(data.images, indices, device)
        )
        self.labels = torch.from_numpy(data.labels[indices])
        self.classes = len(data.classes)
        self.files = [data.files[i] for i in indices]

    def __len__(self) -> int:
        return len(self.labels)

    def pixels(self, places: Indices) -> Pixels:
        """(n, H, W, 3): some of the images, to be looked at."""
        return self.data.images[self.indices[places]]

    def line(self, i: int, predicted: int, confidence: float) -> tuple[str, str, str, str]:
        """What `LINE` names, of one image; the label is empty where nobody knows it."""
        names, label = self.data.classes, int(self.labels[i])
        true = names[label] if label != UNKNOWN else ""
        return self.files[i], true, names[predicted], f"{confidence:.6f}"

    def mark(self, probabilities: Tensor) -> Marks:
        """Compare predictions with the truth."""
        right = (probabilities.argmax(-1).cpu() == self.labels).double()
        total = torch.bincount(self.labels, minlength=self.classes).double()
        hits = torch.bincount(self.labels, weights=right, minlength=self.classes)
        per_class = [
            100 * float(h) / float(n) if n else None for h, n in zip(hits, total, strict=True)
        ]
        return Marks(100 * (1 - float(right.mean())), per_class)


class Pool(Exam):
    """The unlabelled images of a run that are not labelled ones at the same time.

    `places` are their positions in the pool that the run draws from.
    """

    def __init__(self, data: DataSet, split: Split) -> None:
        self.places = split.unknown_places
        super().__init__(data, split.unknown)

    @property
    def truth(self) -> Indices | None:
        """The hidden labels, where the data set knows all of them; no method ever sees them."""
        labels = self.data.labels[self.indices]
        return labels if len(labels) and bool((labels != UNKNOWN).all()) else None


def headline(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """error_last, error_median20 and, picked on the test set and so an oracle, error_best."""
    tests = [row for row in rows if row["kind"] == "test"]
    if not tests:
        return {"error_last": None, "error_median20": None, "error_best": None, "best_step": None}
    best = min(tests, key=lambda row: (row["error"], row["step"]))
    return {
        "error_last": tests[-1]["error"],
        "error_median20": median(row["error"] for row in tests[-20:]),
        "error_best": best["error"],
        "best_step": best["step"],
    }
