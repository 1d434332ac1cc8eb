"""What runs that train at the same time need alike: it is read once and held once."""

from __future__ import annotations

import numpy as np
import torch

from ..data import DataSet
from ..data.dataset import Indices
from ..settings.config import Run
from ..step.exam import Exam
from .build import data_of
from .progress import counting


class Shelf:
    """The data sets, and the held-out images on the device.

    The images that are trained on are not among them: each seed draws its own, in its own order.
    """

    def __init__(self) -> None:
        self.sets: dict[tuple[str | int | None, ...], DataSet] = {}
        self.exams: list[tuple[torch.device | None, Exam]] = []

    def data(self, run: Run) -> DataSet:
        key = (run.data, run.root, run.labels, run.size, run.normalise)
        if key not in self.sets:
            with counting("reading images") as count:
                self.sets[key] = data_of(run, run.size, count)
        return self.sets[key]

    def exam(self, data: DataSet, part: Indices, device: torch.device | None) -> Exam:
        for place, known in self.exams:
            if known.data is data and place == device and np.array_equal(known.indices, part):
                return known
        self.exams.append((device, Exam(data, part, device)))
        return self.exams[-1][1]
