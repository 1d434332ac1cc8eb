"""Labels that the features contradict, and images that show the same twice."""

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
