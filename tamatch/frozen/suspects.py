"""Labels that the features contradict, and images that show nearly the same twice."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .choose import sample
from .features import CELLS, Scaling
from .held_out import learning_curve

POOL = 3000  # images of the pool that the solver looks at; each fold is one more solution
ALIKE = (0.6, 0.98)  # cosine of scaled features: the same scene, cropped, mirrored or compressed
AROUND, APART = 4, 0.3  # by so much nearer than the so-many-eth nearest: all of a sea look alike


@dataclass(frozen=True)
class Suspects:
    """Labels by how much the features contradict them, the surest contradiction first."""

    order: Tensor  # (L,) positions of the labels
    margin: Tensor  # (L,) in that order: p(given class) − p(best other class), −1 … 1
    instead: Tensor  # (L,) in that order: the best other class, …
    confidence: Tensor  # … and its probability

    @property
    def wrong(self) -> int:
        """How many labels another class is more probable than; these are the first."""
        return int((self.margin < 0).sum())


def suspects(p: Tensor, labels: Tensor) -> Suspects:
    """Order labels by what is said of each from the others: p (L, C)."""
    given = p.gather(1, labels[:, None])[:, 0]
    other, instead = p.scatter(1, labels[:, None], -1.0).max(1)
    margin = given - other
    order = margin.argsort(stable=True)
    return Suspects(order, margin[order], instead[order], other[order])


def guessed_from_others(
    features: Tensor, labels: Tensor, pool: Tensor, classes: int, seed: int = 0
) -> Tensor:
    """p (L, C) of every label from the others and the pool; it needs two labels of each class."""
    pool = pool[sample(len(pool), POOL, torch.empty(0, dtype=torch.int64), seed)]
    found = learning_curve(features, labels, pool, classes, fractions=(), seed=seed)
    assert found.p is not None
    return found.p


def contradicted(features: Tensor, labels: Tensor) -> list[tuple[int, int, float]]:
    """(image, the class that it more probably is, its probability), the surest first.

    Labels are negative where there are none. Each is judged by the others of its class, so that a
    class with one label has no part in it.
    """
    known = (labels >= 0).nonzero()[:, 0]
    known = known[torch.bincount(labels[known])[labels[known]] > 1]
    classes, y = torch.unique(labels[known], return_inverse=True)
    if len(classes) < 2:
        return []
    p = guessed_from_others(features[known], y, features[labels < 0], len(classes))
    found = suspects(p, y)
    wrong = slice(found.wrong)
    images, instead = known[found.order[wrong]], classes[found.instead[wrong]]
    sure = found.confidence[wrong].tolist()
    return [*zip(images.tolist(), instead.tolist(), sure, strict=True)]


def near_duplicates(features: Tensor) -> list[tuple[int, int, float]]:
    """(first, again, cosine): images with nearly the features of an earlier one, most alike first.

    They are nearer to each other than to what is around them, or so near that this does not matter.
    Each is told once, with the first image that it repeats.
    """
    if len(features) < 2:
        return []
    unit = torch.nn.functional.normalize(Scaling.of(features)(features), dim=1)
    count = min(AROUND, len(unit) - 1) + 1  # each is the nearest of itself
    blocks = [*range(0, len(unit), max(1, CELLS // len(unit)))]
    ends = [*blocks[1:], len(unit)]
    nearest = [
        (unit[start:end] @ unit.T).topk(count, dim=1).values
        for start, end in zip(blocks, ends, strict=True)
    ]
    around = torch.cat(nearest)[:, -1]
    enough = (around + APART).clamp(*ALIKE)
    found: list[tuple[int, int, float]] = []
    for start, end in zip(blocks, ends, strict=True):
        likeness = (unit[start:end] @ unit[:end].T).tril(start - 1)
        alike = likeness >= torch.maximum(enough[start:end, None], enough[:end])
        again = alike.any(1).nonzero()[:, 0]
        first = alike[again].int().argmax(1)
        cosines = likeness[again, first].tolist()
        found += zip(first.tolist(), (start + again).tolist(), cosines, strict=True)
    return sorted(found, key=lambda pair: -pair[2])
