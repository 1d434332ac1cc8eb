"""What runs that train at the same time share: each data set is read once and held once."""

from __future__ import annotations

import numpy as np
import torch

from ..data import DataSet
from ..data.dataset import Indices
from ..progress import counting
from ..settings.config import Run
from ..settings.inputs import data_of
from ..step.subset import Subset


class SharedData:
    """The data sets, and the held-out images on the device.

    Training images are not shared: each seed draws its own, in its own order.
    """

    def __init__(self) -> None:
        self.sets: dict[tuple[str | int | None, ...], DataSet] = {}
        self.held_out: list[tuple[torch.device | None, Subset]] = []

    def data(self, run: Run) -> DataSet:
        key = (run.data, run.root, run.labels, run.size, run.normalise)
        if key not in self.sets:
            with counting("reading images") as count:
                self.sets[key] = data_of(run, run.size, count)
        return self.sets[key]

    def subset(self, data: DataSet, indices: Indices, device: torch.device | None) -> Subset:
        for place, known in self.held_out:
            if known.data is data and place == device and np.array_equal(known.indices, indices):
                return known
        self.held_out.append((device, Subset(data, indices, device)))
        return self.held_out[-1][1]
