"""Images that are predicted and not trained on: held-out parts and the unlabelled pool."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..data import UNKNOWN, DataSet, Split
from ..data.dataset import Indices, Pixels
from .source import OnHost, to_device

PREDICTION_COLUMNS = ("image", "label", "predicted", "confidence")


@dataclass(frozen=True)
class Scores:
    """Error and accuracy by class, in percent; None for a class that is not among the images."""

    error: float
    per_class: list[float | None]


class Subset:
    """Some images of a data set; without a device they stay in the host's memory."""

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
        """The `PREDICTION_COLUMNS` of one image; the label is empty where it is not known."""
        names, label = self.data.classes, int(self.labels[i])
        true = names[label] if label != UNKNOWN else ""
        return self.files[i], true, names[predicted], f"{confidence:.6f}"

    def score(self, probabilities: Tensor) -> Scores:
        """Compare predictions with the true labels."""
        right = (probabilities.argmax(-1).cpu() == self.labels).double()
        total = torch.bincount(self.labels, minlength=self.classes).double()
        hits = torch.bincount(self.labels, weights=right, minlength=self.classes)
        per_class = [
            100 * float(h) / float(n) if n else None for h, n in zip(hits, total, strict=True)
        ]
        return Scores(100 * (1 - float(right.mean())), per_class)


class Pool(Subset):
    """The images of the unlabelled pool whose labels the run is not given otherwise.

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
