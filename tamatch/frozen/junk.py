"""Images of the pool that belong to none of the classes: found, weighed, never deleted.

    v = directions of the features, moved towards those of their neighbours     features.Space
    s = likeness of v to the mean v of the nearest class, averaged over the graph
    belongs = Φ((s − m) / σ + SLACK), with m and σ those of s over the labelled images

A labelled image is compared with the mean of the others of its class. Images that a person has
marked as none of the classes count against those that resemble them.
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
    s = closeness(space, labels, classes, every)
    score = (s[known:every] - s[:known].mean()) / s[:known].std(correction=0).clamp(min=1e-6)
    weight = torch.special.ndtr(score + SLACK).clamp(min=LEAST)
    return Belonging(score, weight, solve(features, labels, pool, classes, prior, weight))


def closeness(space: Space, labels: Tensor, classes: int, every: int) -> Tensor:
    """s of each row; the first have `labels`, and those from `every` on are of no class."""
    v, known = space.smoothed(DRAWN_TOGETHER), torch.arange(len(labels), device=labels.device)
    sums = one_hot(labels, classes).to(v.dtype).T @ v[: len(labels)]
    likeness = v @ F.normalize(sums, dim=1).T
    without = F.normalize(sums[labels] - v[: len(labels)], dim=1)
    likeness[known, labels] = (v[: len(labels)] * without).sum(1)
    s = likeness.amax(1)
    if every < len(v):
        s = s - (v @ v[every:].T).amax(1).clamp(min=0)
    return space.graph.smoothed(s[:, None], *SMOOTHING)[:, 0]
