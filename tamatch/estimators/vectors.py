"""Rows of numbers in place of images: a small net, views by noise, and the engine for them.

A row of F numbers is an image of one pixel with F channels, (F, 1, 1), so every method works on
it as it is.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..augment import Augment, uniform
from ..data import UNKNOWN, DataSet, Split
from ..data.dataset import Indices
from ..nets.base import Net
from ..runs import build
from ..settings.config import Run
from ..step.engine import Engine
from ..step.source import Draw, Source, stream_key
from ..types import Out

Rows = npt.NDArray[np.float32]

WEAK = 0.1  # standard deviation of the noise, where that of each feature is 1
STRONG = 0.3
DROP = 0.2  # chance that the strong view hides a feature, which then has its mean, 0


class MLP(Net):
    """Two hidden layers of equal width."""

    def __init__(self, features: int, hidden: int, classes: int) -> None:
        super().__init__(classes=classes, width=hidden, map_width=hidden)
        self.body = nn.Sequential(
            nn.Linear(features, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU()
        )
        self.head = nn.Linear(hidden, classes)

    def forward(self, images: Tensor) -> Out:
        """Classify rows (N, F, 1, 1)."""
        features = self.body(images.flatten(1))
        return self.finish(features, features)

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """The hidden layers are 0 and 1; each has an activation behind it in `body`."""
        part, *rest = parameter.split(".")
        return (2 if part == "head" else int(rest[0]) // 2), 2


class Jitter(nn.Module):
    """Views of standardised rows, called like `Augment` and as independent of everything else.

    `plain` is the row, `weak` has a little Gaussian noise, `strong` more of it, and each feature
    is hidden with the chance `DROP`.
    """

    VIEWS = ("plain", "weak", "strong")

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def forward(self, view: str, rows: Tensor, step: Tensor, slot: Tensor, stream: int) -> Tensor:
        if view == "plain":
            return rows
        count = rows.shape[1]
        address = len(self.VIEWS) * stream + self.VIEWS.index(view)
        draws = uniform(self.seed, step, slot, address, 2 * count)[..., None, None]
        positive = draws[:, :count].clamp(min=2**-25)  # Φ⁻¹(0) is infinite
        noise: Tensor = torch.special.ndtri(positive)
        if view == "weak":
            return rows + WEAK * noise
        return (rows + STRONG * noise) * (draws[:, count:] >= DROP)


class VectorSource(Source):
    """Rows that live on the device."""

    place = "device"

    def __init__(
        self, rows: Rows, data: DataSet, split: Split, draw: Draw, device: torch.device
    ) -> None:
        super().__init__(data, split, draw, device)
        all_rows = torch.from_numpy(rows)[..., None, None]
        self.on_device = tuple(all_rows[torch.from_numpy(i)].to(device) for i in self.indices)

    def images(self, kind: int, ids: Tensor) -> Tensor:
        return self.on_device[kind].index_select(0, ids)


def data_of(labels: Indices, classes: tuple[str, ...]) -> DataSet:
    """A data set without a pixel: who has which label, for the split and the method's task."""
    known = labels != UNKNOWN
    none = np.empty(0, np.int64)
    return DataSet(
        name="the data",
        classes=classes,
        images=np.empty((len(labels), 0, 0, 3), np.uint8),
        labels=labels,
        parts=(np.flatnonzero(known), np.flatnonzero(~known), none, none),
        files=[str(i) for i in range(len(labels))],
        mean=(0.0, 0.0, 0.0),
        std=(1.0, 1.0, 1.0),
        given_labels=True,
    )


def vector_engine(run: Run, rows: Rows, data: DataSet, split: Split, hidden: int) -> Engine:
    """An engine at step 0 that trains an `MLP` on standardised rows."""
    device, autocast = build.set_up_machine(run)
    with build.seeded(run):
        net = MLP(rows.shape[1], hidden, len(data.classes))
        method = build.method_of(run, net, build.task_of(run, data, split), device)
    source = VectorSource(rows, data, split, build.draw_of(run, method), device)
    views = cast(Augment, Jitter(stream_key(run.seed, build.SEEDS["views"])))
    return build.try_and_accelerate(run, build.assemble(run, method, source, views, autocast))
