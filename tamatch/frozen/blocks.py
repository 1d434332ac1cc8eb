"""Which features to learn from: those of a net's last block alone, or those of lower blocks, too.

The last block tells objects. Lower ones see colours and textures, which tell land, tissues or
materials; where they do not tell the classes, they form groups of their own, and mislead. The
labels decide. With either set of features:

    S = what each label brings to each image, spread over a graph of nearest    features.Graph
    p(i) ∝ for each class the mean of S(i, j) over its labels j ≠ i
    the features with the larger Σ log p(i, y_i) are taken

This asks labels and pool together: a classifier of the labels alone is hardly ever better with the
lower blocks, and tells nothing of which images lie next to each other.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ..losses import normalize, one_hot
from .choose import sample
from .features import Graph, Scaling
from .solver import SPREAD, directed

CROWD = 3000  # images that are looked at, …
JUDGED = 500  # … of which so many labels at most
LEAST = 0.01  # of an even share: p of a class that nothing speaks for


def telling(features: Tensor, labels: Tensor, upper: int) -> Tensor:
    """The leading columns of all features (N, D) that tell the classes: `upper` ones, or all.

    `labels` (N,) are negative where there are none. Without any, images that differ in anything
    differ. As long as no class has two, nothing tells: the last block is what the net was made for.
    """
    known = (labels >= 0).nonzero()[:, 0].cpu()
    if upper == features.shape[1] or not len(known):
        return features
    judged = known[sample(len(known), JUDGED, known[:0])]
    unknown = (labels < 0).nonzero()[:, 0].cpu()
    others = unknown[sample(len(unknown), CROWD - len(judged), unknown[:0])]
    rows = features[torch.cat([judged, others]).to(features.device)]
    _, y = torch.unique(labels[judged.to(labels.device)], return_inverse=True)
    above, every = (guessed(rows[:, :width], y) for width in (upper, features.shape[1]))
    return features if every > above else features[:, :upper]


def widened(head: Tensor, width: int) -> Tensor:
    """The same linear classifier, (C, D + 1), of rows with more columns, which it passes over."""
    weight = F.pad(head[:, :-1], (0, width + 1 - head.shape[1]))
    return torch.cat([weight, head[:, -1:]], dim=1)


def guessed(rows: Tensor, labels: Tensor) -> float:
    """Σ log p of the `labels`, which are those of the first rows, each guessed from the others."""
    count, members = len(labels), one_hot(labels, int(labels.max()) + 1).to(rows.dtype)
    others = members.sum(0) - members  # labels of each class, without the one that is guessed
    graph = Graph(directed(Scaling.of(rows)(rows)))
    brought = graph.smoothed(
        torch.eye(len(rows), count, dtype=rows.dtype, device=rows.device), *SPREAD
    )[:count]
    brought = brought.fill_diagonal_(0)
    p = normalize((brought @ members) / others.clamp(min=1) + LEAST / len(rows))
    own = labels[:, None]
    judged = others.gather(1, own)[:, 0] > 0
    return float(p.gather(1, own)[judged, 0].log().sum())
