"""Which images to label next: uncertain, typical, of weak classes, unlike each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..data import DataSet, OnProgress, Split
from ..data.dataset import Indices
from ..model.model import Model
from ..step.source import OnHost

Floats = npt.NDArray[np.float32]

GREEDY = 1000  # images picked one by one; nobody labels more before the next run
CANDIDATES = 20_000  # images that the picking looks at, the most useful ones
NEIGHBOURS = 20  # images that an image is compared with to see how typical it is
CROWD = 10_000  # images among which these are looked for


@dataclass(frozen=True)
class Survey:
    """The unlabelled images of a run, the most useful to label first."""

    images: Indices  # (n,) positions in the data
    probabilities: Floats  # (n, C)


def survey(model: Model, data: DataSet, split: Split, progress: OnProgress | None = None) -> Survey:
    """Predict every image of the pool once, and sort them by `pick_order`."""
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
    for p, features in model.answers(OnHost(data.images, indices, channels_last=True)):
        rows.append((p.numpy(), features.numpy()))
        if progress is not None:
            progress(sum(len(known) for known, _ in rows), len(indices))
    every_p, every_feature = map(np.concatenate, zip(*rows, strict=True))
    return every_p, every_feature


def usefulness(probabilities: Floats) -> Floats:
    """u = (1 − (p₁ − p₂)) · (1 + Σ_c p_c·w_c), at least 0 and at most 2, of each image.

    p₁ and p₂ are the two largest probabilities; w is the `weakness` of each class.
    """
    if probabilities.shape[1] < 2:
        return np.zeros(len(probabilities), np.float32)
    two = np.partition(probabilities, -2, axis=1)[:, -2:]
    uncertainty: Floats = 1 - (two[:, 1] - two[:, 0])
    return uncertainty * (1 + probabilities @ weakness(probabilities))


def weakness(probabilities: Floats) -> Floats:
    """w of each class: 0 for the one the model is surest of, 1 for the least sure.

    That is by the mean confidence in the images predicted as the class; 0 where there are none.
    """
    classes = probabilities.shape[1]
    if not len(probabilities):
        return np.zeros(classes, np.float32)
    guess, confidence = probabilities.argmax(1), probabilities.max(1)
    count = np.bincount(guess, minlength=classes)
    sure = np.bincount(guess, weights=confidence, minlength=classes) / np.maximum(count, 1)
    span = sure.max() - sure.min()
    weak: Floats = ((sure.max() - sure) / (span if span > 0 else 1)).astype(np.float32)
    return weak


def pick_order(probabilities: Floats, features: Floats, labelled: Floats) -> Indices:
    """All images, the most useful to label first.

    Each next one has the greatest u·t·d: its usefulness, its typicality, and the distance of its
    features, of unit length, to the nearest image that is labelled or was picked before. After
    `GREEDY` images, u alone decides.
    """
    u = usefulness(probabilities)
    by_use = np.argsort(-u, kind="stable")
    rows = np.sort(by_use[:CANDIDATES])
    own, known = unit(features[rows]), unit(labelled)
    nearest = np.full(len(rows), 4.0, np.float32)  # squared distances
    for feature in known:
        np.minimum(nearest, squared(own, feature), out=nearest)
    score = u[rows] * typicality(own)
    picked: list[int] = []
    for _ in range(min(GREEDY, len(rows))):
        gain = score * np.sqrt(nearest)
        gain[picked] = -1
        best = int(gain.argmax())
        picked.append(best)
        np.minimum(nearest, squared(own, own[best]), out=nearest)
    first = rows[picked]
    return np.concatenate([first, by_use[~np.isin(by_use, first)]])


def typicality(features: Floats) -> Floats:
    """t of each image, by features of unit length: 1 for the most typical, 0 for the least.

    That is by the mean cosine to its nearest neighbours: an image unlike all others teaches little.
    """
    crowd = features[:: 1 + len(features) // CROWD]
    most = min(NEIGHBOURS, len(crowd) - 1)
    if most < 1:
        return np.ones(len(features), np.float32)
    cosines = np.empty(len(features), np.float32)
    for first in range(0, len(features), 1024):
        near = features[first : first + 1024] @ crowd.T
        top = -np.partition(-near, most, axis=1)[:, : most + 1]  # the image itself is one of them
        cosines[first : first + 1024] = (top.sum(1) - top.max(1)) / most
    span = cosines.max() - cosines.min()
    typical: Floats = (cosines - cosines.min()) / span if span > 1e-6 else np.ones_like(cosines)
    return typical


def unit(features: Floats) -> Floats:
    length = np.linalg.norm(features, axis=1, keepdims=True)
    out: Floats = (features / np.maximum(length, 1e-12)).astype(np.float32)
    return out


def squared(rows: Floats, one: Floats) -> Floats:
    """Squared distances of unit vectors, never below zero."""
    out: Floats = np.maximum(2 - 2 * (rows @ one), 0)
    return out
