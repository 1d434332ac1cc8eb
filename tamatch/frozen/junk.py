"""Images of the pool that belong to none of the classes: found, weighed, never deleted.

    v = directions of the features, moved towards those of their neighbours     features.Space
    s = likeness of v to the mean v of the nearest class, averaged over the graph
    b = Φ((s − m) / σ + SLACK), with m and σ those of s over the labelled images
    belongs = 1 − t·(1 − b), t = 0 … 1 where b misses CHANCE … 2·CHANCE of the pool

In a clean pool, b is low for some images too: it is trusted once there is more than that. A
labelled image is compared with the mean of the others of its class. Where a person has marked
images as none of the classes, an image that is nearer to one of these than to a label counts less.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..losses import one_hot
from .features import DRAWN_TOGETHER, Space
from .solver import Solution, solve

SLACK = 2.0  # deviations below the labelled images at which an image counts half
CHANCE = 0.1  # of a clean pool
NOTHING = 0.05  # differences of s that mean nothing
SMOOTHING = (0.1, 5)  # own share and steps
LEAST = 1e-3  # weight of the oddest image: smooth, so that nothing is ever out for good


@dataclass(frozen=True)
class Belonging:
    """How far each image of the pool belongs to the classes at all, and the pool solved with it."""

    score: Tensor  # (U,) deviations from the labelled images; the lower, the odder
    weight: Tensor  # (U,) 0 … 1
    solution: Solution

    @property
    def junk(self) -> float:
        """The estimated share of the pool that belongs to no class."""
        return float(1 - self.weight.mean())


def solve_with_junk(
    features: Tensor, labels: Tensor, pool: Tensor, classes: int, prior: Tensor | None = None,
    none: Tensor | None = None,
) -> Belonging:  # fmt: skip
    """Solve a pool that may hold anything; `none` are features of images marked as no class."""
    none = features[:0] if none is None else none
    space = Space.of(torch.cat([features, pool, none]))
    known, every = len(labels), len(labels) + len(pool)
    v = space.smoothed(DRAWN_TOGETHER)
    s = space.graph.smoothed(closeness(v, labels, classes)[:, None], *SMOOTHING)[:, 0]
    among = torch.bincount(labels, minlength=classes)[labels] > 1  # has another to compare with
    usual = s[:known][among]
    deviation = (usual.var(correction=0) + NOTHING**2).sqrt() if len(usual) else 1.0
    score = (s[known:every] - (usual.mean() if len(usual) else -1.0)) / deviation
    odd = 1 - torch.special.ndtr(score + SLACK)
    trust = (odd.mean() / CHANCE - 1).clamp(0, 1) if len(pool) else 0
    weight = 1 - trust * odd
    if len(none):
        label, mark = (nearest(v[known:every], to) for to in (v[:known], v[every:]))
        weight = weight * torch.special.ndtr((label - mark) / NOTHING)
    weight = weight.clamp(min=LEAST)
    return Belonging(score, weight, solve(features, labels, pool, classes, prior, weight))


def closeness(v: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Cosine of each row with the nearest class mean; the first rows have the `labels`."""
    known = torch.arange(len(labels), device=labels.device)
    sums = one_hot(labels, classes).to(v.dtype).T @ v[: len(labels)]
    cosines = v @ F.normalize(sums, dim=1).T
    others = F.normalize(sums[labels] - v[: len(labels)], dim=1)
    cosines[known, labels] = (v[: len(labels)] * others).sum(1)
    return cosines.amax(1)


def nearest(rows: Tensor, to: Tensor) -> Tensor:
    """The largest cosine of each row with any of the others."""
    return torch.stack([(rows @ part.T).amax(1) for part in torch.split(to, 100)]).amax(0)
