"""What the model says about every image that has no label yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data import DataSet, OnProgress, Split
from ..data.dataset import Indices
from ..model.model import Model
from ..step.source import OnHost
from .picking import Floats, pick_order


@dataclass(frozen=True)
class Survey:
    """The unlabelled images of a run, the most useful to label first."""

    images: Indices  # (n,) positions in the data
    probabilities: Floats  # (n, C)


def survey(model: Model, data: DataSet, split: Split, progress: OnProgress | None = None) -> Survey:
    """Look at the pool once, and put it in the order of `pick_order`."""
    pool = np.sort(split.unknown)  # equally useful ones come in the order of the data
    seen = np.concatenate([pool, split.labelled])
    p, features = outputs(model, data, seen, progress)
    n = len(pool)
    order = pick_order(p[:n], features[:n], features[n:])
    return Survey(pool[order], p[:n][order])


def outputs(
    model: Model, data: DataSet, indices: Indices, progress: OnProgress | None = None
) -> tuple[Floats, Floats]:
    """(n, C) probabilities and (n, D) features of these images."""
    rows: list[tuple[Floats, Floats]] = []
    done = 0
    for p, features in model.answers(OnHost(data.images, indices, channels_last=True)):
        rows.append((p.numpy(), features.numpy()))
        done += len(p)
        if progress is not None:
            progress(done, len(indices))
    every_p, every_feature = (np.concatenate(part) for part in zip(*rows, strict=True))
    return every_p, every_feature
