"""Images of the pool that belong to none of the classes: found, weighed, never deleted.

    v = directions of the features, moved towards those of their neighbours     features.Space
    s = likeness of v to the mean v of the nearest class, averaged over the graph
    z = (s − m) / σ, with m and σ those of s over the labelled images
    t = 0 … 1 where Φ(z + SLACK) misses CHANCE … 2·CHANCE of the pool, times
        the share of ENOUGH labels for each class that had others to be compared with, at most 1
    share of junk = CAUTION · (1 − P[z > −½] / Φ(½))
    belongs = 1 − t·(1 − Φ(z + c)), c so that Φ(z + c) misses that share

In a clean pool, z is low for some images too: it is trusted once there are more of these. Then the
share counts the images that are missing where those of the classes would be. A labelled image is
compared with the mean of the others of its class. Where a person has marked images as none of the
classes, an image that is nearer to one of these than to a label counts less. Fewer than COMPARED
labels say little of what is usual: the share then exceeds what Φ(z + SLACK) misses by less.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..losses import one_hot
from .features import DRAWN_TOGETHER, Space
from .solver import Solution, solve

SLACK = 2.0  # deviations below the labelled images, beyond which an image is a sign of junk
CHANCE = 0.1  # of a clean pool
ENOUGH = 3  # labels of a class, on average
COMPARED = 30  # labels
USUAL = 0.5  # deviations below the labelled images, up to which the images of the classes count
CAUTION = 0.9  # of the share: labelled images are a little closer to each other than new ones
HALVINGS = 30
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
    none: Tensor | None = None, upper: int | None = None,
) -> Belonging:  # fmt: skip
    """Solve a pool that may hold anything; `none` are features of images marked as no class.

    What is odd the `upper` first features tell, those of a net's last block: to lower ones, all is
    odd that has another colour than the labelled images.
    """
    none = features[:0] if none is None else none
    space = Space.of(torch.cat([features, pool, none])[:, :upper])
    known, every = len(labels), len(labels) + len(pool)
    v = space.smoothed(DRAWN_TOGETHER)
    s = space.graph.smoothed(closeness(v, labels, classes)[:, None], *SMOOTHING)[:, 0]
    among = torch.bincount(labels, minlength=classes)[labels] > 1  # has another to compare with
    usual = s[:known][among]
    deviation = (usual.var(correction=0) + NOTHING**2).sqrt() if len(usual) else 1.0
    score = (s[known:every] - (usual.mean() if len(usual) else -1.0)) / deviation
    weight = weights_of(score, len(usual), classes)
    if len(none):
        label, mark = (nearest(v[known:every], to) for to in (v[:known], v[every:]))
        weight = weight * torch.special.ndtr((label - mark) / NOTHING)
    weight = weight.clamp(min=LEAST)
    return Belonging(score, weight, solve(features, labels, pool, classes, prior, weight))


def weights_of(score: Tensor, compared: int, classes: int) -> Tensor:
    """belongs of a pool by its scores z, and how many labels there were to compare it with."""
    signs = float((1 - torch.special.ndtr(score + SLACK)).mean()) if len(score) else 0.0
    trust = min(1.0, max(0.0, signs / CHANCE - 1)) * min(1.0, compared / (ENOUGH * classes))
    if not trust:
        return torch.ones_like(score)
    expected = float(torch.special.ndtr(score.new_tensor(USUAL)))
    share = CAUTION * (1 - float((score > -USUAL).float().mean()) / expected)
    share = signs + min(1.0, compared / COMPARED) * max(0.0, share - signs)
    low, high = -float(score.max()) - SLACK, SLACK  # with `high` it misses `signs`, no less
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        missing = float((1 - torch.special.ndtr(score + middle)).mean())
        low, high = (middle, high) if missing > share else (low, middle)
    weight: Tensor = 1 - trust * (1 - torch.special.ndtr(score + high))
    return weight


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
