"""What the model says of every image that has no label yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..data import DataSet, Progress, Split
from ..runs.model import Model
from .picking import Floats, Indices, pick_order

BATCH = 256  # images predicted together


@dataclass(frozen=True)
class Survey:
    """The unlabelled images of a run, the most useful to label first."""

    images: Indices  # (n,) positions in the data
    probabilities: Floats  # (n, C)


def survey(model: Model, data: DataSet, split: Split, progress: Progress | None = None) -> Survey:
    """Look at the pool once, and put it in the order of `pick_order`."""
    known = np.concatenate([split.labelled, split.validation])
    pool = np.setdiff1d(split.unlabelled, known)
    seen = np.concatenate([pool, split.labelled])
    p, features = outputs(model, data, seen, progress)
    n = len(pool)
    order = pick_order(p[:n], features[:n], features[n:])
    return Survey(pool[order], p[:n][order])


@torch.no_grad()
def outputs(
    model: Model, data: DataSet, indices: Indices, progress: Progress | None = None
) -> tuple[Floats, Floats]:
    """(n, C) probabilities and (n, D) features of these images."""
    assert model.net is not None
    zero = torch.zeros((), dtype=torch.int64)
    rows: list[tuple[Floats, Floats]] = []
    for first in range(0, len(indices), BATCH):
        part = indices[first : first + BATCH]
        pixels = torch.from_numpy(data.images[part]).permute(0, 3, 1, 2)
        out = model.net(model.normalise("plain", pixels, zero, zero, 0))
        p = (out.logits / model.facts.temperature).softmax(-1)
        rows.append((p.numpy(), out.features.numpy()))
        if progress is not None:
            progress(first + len(part), len(indices))
    if not rows:
        return np.empty((0, len(data.classes)), np.float32), np.empty((0, 1), np.float32)
    probabilities, features = (np.concatenate(part) for part in zip(*rows, strict=True))
    return probabilities, features
