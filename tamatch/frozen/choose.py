"""Which images to label: those that stand for the most others that no label speaks for yet.

    v = directions of the features, moved towards those of their neighbours     features.Space
    likeness s(i, j) = max(0, v_i · v_j)^1.5
    covered(i) = the largest s(i, j) of all j that are labelled or chosen
    the next image is the j with the largest Σ_i doubt(i) · max(0, s(i, j) − covered(i))

Without labels, doubt is 1 and the first image is the most typical one of all. Every further image
speaks for what those before it do not, so that any beginning of the list is a good choice by
itself. Once there are guesses, doubt is (1 − m)², m the margin of the two best classes after
rescaling: images of which the solver is sure need no label, however many they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .features import CELLS, DRAWN_TOGETHER, Space

CROWD = 5000  # images that are looked at; of more, a random part of this size stands for all


def choose(
    features: Tensor, count: int, labelled: Tensor | None = None, doubt: Tensor | None = None,
    seed: int = 0,
) -> Tensor:  # fmt: skip
    """Positions of up to `count` images that are not `labelled`, the most telling first."""
    known = torch.empty(0, dtype=torch.int64) if labelled is None else labelled
    crowd = sample(len(features), CROWD + len(known), known, seed)
    if len(crowd) < 2:
        return crowd[~torch.isin(crowd, known)][:count]
    chosen = spread_out(
        Space.of(features[crowd]), count, torch.isin(crowd, known).nonzero()[:, 0],
        None if doubt is None else doubt[crowd],
    )  # fmt: skip
    return crowd[chosen]


def sample(images: int, most: int, always: Tensor, seed: int = 0) -> Tensor:
    """Positions of at most `most` images in ascending order, those of `always` among them."""
    order = torch.randperm(images, generator=torch.Generator().manual_seed(seed))
    others = order[~torch.isin(order, always)]
    return torch.cat([always, others[: max(0, most - len(always))]]).sort().values


def spread_out(space: Space, count: int, labelled: Tensor, doubt: Tensor | None = None) -> Tensor:
    """The greedy choice. A gain only ever falls, so that only the largest are computed anew."""
    v = space.smoothed(DRAWN_TOGETHER)
    weight = v.new_ones(len(v)) if doubt is None else doubt.to(v.dtype)
    covered = v.new_zeros(len(v))
    for image in labelled.tolist():
        covered = torch.maximum(covered, likeness(v @ v[image]))
    gain = torch.cat(
        [
            weight @ (likeness(v @ rows.T) - covered[:, None]).clamp(min=0)
            for rows in torch.split(v, max(1, CELLS // len(v)))
        ]
    )
    gain[labelled] = -1
    current = torch.zeros(len(v), dtype=torch.int64)  # the step that a gain was computed in
    chosen: list[int] = []
    for step in range(min(count, len(v) - len(labelled))):
        while current[best := int(gain.argmax())] < step:
            gain[best] = weight @ (likeness(v @ v[best]) - covered).clamp(min=0)
            current[best] = step
        chosen.append(best)
        covered = torch.maximum(covered, likeness(v @ v[best]))
        gain[best] = -1
    return torch.tensor(chosen, dtype=torch.int64)


def likeness(cosines: Tensor) -> Tensor:
    """s of images whose directions have these cosines.

    A power of 1 prefers the middle of all images, one of 3 small tight groups of them.
    """
    near = cosines.clamp(min=0)
    return near * near.sqrt()


def doubts(q: Tensor) -> Tensor:
    """(1 − margin of the two most probable classes)² of each row; 1 with a single class."""
    if q.shape[1] < 2:
        return q.new_ones(len(q))
    two = q.topk(2, dim=1).values
    return (1 - (two[:, 0] - two[:, 1])).square()
