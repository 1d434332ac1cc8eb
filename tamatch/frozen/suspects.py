"""Labels that the features contradict, and images that show nearly the same twice."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .choose import sample
from .features import CELLS, Scaling
from .held_out import parts_of
from .solver import solve

FOLDS = 5
POOL = 3000  # images of the pool that the solver looks at; each fold is one more solution
SAME = 0.98  # cosine of the scaled features: the same scene, cropped, resized or compressed anew


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


def suspects(
    features: Tensor, labels: Tensor, pool: Tensor, classes: int, seed: int = 0
) -> Suspects:
    """Guess every label from the others and the pool; it needs two labels of each class."""
    pool = pool[sample(len(pool), POOL, torch.empty(0, dtype=torch.int64), seed)]
    parts = parts_of(labels, FOLDS, seed)
    p = features.new_empty(len(labels), classes)
    for part in range(int(parts.max()) + 1):
        held = parts == part
        rest = torch.cat([features[held], pool])
        found = solve(features[~held], labels[~held], rest, classes)
        p[held] = found.q[: int(held.sum())].to(p.dtype)
    given = p.gather(1, labels[:, None])[:, 0]
    other, instead = p.scatter(1, labels[:, None], -1.0).max(1)
    margin = given - other
    order = margin.argsort(stable=True)
    return Suspects(order, margin[order], instead[order], other[order])


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
    found = suspects(features[known], y, features[labels < 0], len(classes))
    wrong = slice(found.wrong)
    images, instead = known[found.order[wrong]], classes[found.instead[wrong]]
    sure = found.confidence[wrong].tolist()
    return [*zip(images.tolist(), instead.tolist(), sure, strict=True)]


def near_duplicates(features: Tensor, alike: float = SAME) -> list[tuple[int, int, float]]:
    """(first, again, cosine): images with nearly the features of an earlier one, most alike first.

    Each is told once, with the first image that it repeats.
    """
    unit = torch.nn.functional.normalize(Scaling.of(features)(features), dim=1)
    found: list[tuple[int, int, float]] = []
    size = max(1, CELLS // max(1, len(unit)))
    for start in range(0, len(unit), size):
        rows = unit[start : start + size]
        likeness = (rows @ unit[: start + len(rows)].T).tril(start - 1)
        again = (likeness >= alike).any(1).nonzero()[:, 0]
        first = (likeness[again] >= alike).int().argmax(1)
        cosines = likeness[again, first].tolist()
        found += zip(first.tolist(), (start + again).tolist(), cosines, strict=True)
    return sorted(found, key=lambda pair: -pair[2])
