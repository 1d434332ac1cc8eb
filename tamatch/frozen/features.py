"""Features in which distances mean something: scaled, decorrelated, and linked to their nearest."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from ..losses import normalize, one_hot

# said once by torch 2.11 of any sparse matrix, whether its invariants are checked or not
warnings.filterwarnings("ignore", "Sparse invariant checks are implicitly disabled", UserWarning)

SHRINKAGE = 3.0  # added to the correlations' diagonal: 0 whitens fully, a large value not at all
SHRINKAGE_WITHIN = 0.4  # the same where differences between classes are left out
LENGTH = 10.0  # root mean square length of a scaled row: the slope of the softmax
LEAST_WITHIN = 0.01  # of a column's variance; else a column that tells all would be the only one
ROUNDING = 1e-8  # the same where classes are left out: less is not told from nothing
NEIGHBOURS = 10  # at most; log₂ of the number of images where these are few
DRAWN_TOGETHER = 2  # steps towards the neighbours, before images stand for each other
CELLS = 2**24  # numbers in a block of a matrix that would be too large as a whole


@dataclass(frozen=True)
class Scaling:
    """z = A(x − mean): columns of deviation 1, correlations shrunk away, rows of LENGTH on average.

    It is linear, so that what is learnt on z is a linear classifier of x, and independent of the
    units of the columns.
    """

    mean: Tensor  # (D,)
    matrix: Tensor  # A, (D, D)

    @classmethod
    def of(cls, features: Tensor, amounts: Tensor | None = None) -> Scaling:
        """From labelled and unlabelled rows alike; a constant column has no effect.

        With `amounts` (N,), a row counts as much as that.
        """
        if amounts is not None:  # as if each row were there that often
            mean = amounts @ features / amounts.sum()
            centred = (features - mean) * (amounts / amounts.mean()).sqrt()[:, None]
        else:
            mean = features.mean(0)
            centred = features - mean
        inverse = _inverse(centred.square().mean(0).sqrt(), mean)
        standard = centred * inverse
        correlation = standard.T @ standard / len(features)
        return cls._sized(mean, _uncorrelated(correlation, inverse, SHRINKAGE), centred)

    @classmethod
    def within(cls, features: Tensor, members: Tensor) -> Scaling:
        """From how rows differ within their classes, to which they belong by `members` (N, C).

        What all classes vary in tells nothing of the class. The mean is that of evenly frequent
        classes; in the differences, a class counts as often as it has members. Of a net that is
        tuned, these may be all there is: what rounding leaves of the rest would be no covariance.
        """
        kind, features, members = features.dtype, features.double(), members.double()
        counts = members.sum(0)
        means = normalize(members.T) @ features
        mean = means.mean(0)
        centred, between = features - mean, means - mean
        total = (centred * members.sum(1, keepdim=True)).T @ centred
        covariance = total - (between * counts[:, None]).T @ between
        least = ROUNDING * total.diagonal()
        inverse = _inverse((covariance.diagonal().maximum(least) / counts.sum()).sqrt(), mean)
        correlation = covariance / counts.sum() * inverse * inverse[:, None]
        found = cls._sized(mean, _uncorrelated(correlation, inverse, SHRINKAGE_WITHIN), centred)
        return cls(found.mean.to(kind), found.matrix.to(kind))

    @classmethod
    def of_classes(cls, features: Tensor, labels: Tensor, amounts: Tensor, classes: int) -> Scaling:
        """A column counts b/w: in units of w, its deviation within classes; b is that between them.

        All classes count the same. Columns are not decorrelated: that helps where there are many
        labels or pseudo-labels, and with few it makes noise as large as what tells classes apart.
        """
        members = normalize((one_hot(labels, classes).to(features) * amounts[:, None]).T)
        means = members @ features
        mean = means.mean(0)
        within = members.mean(0) @ (features - means[labels]).square()
        between = (means - mean).square().mean(0)
        total = within + between
        inverse = _inverse(total.sqrt(), mean)
        part = (between / total.clamp(min=1e-30)).sqrt()  # of its deviation, 0 … 1
        rest = (within / total.clamp(min=1e-30)).clamp(min=LEAST_WITHIN)
        return cls._sized(mean, (part / rest * inverse).diag(), features - mean)

    @classmethod
    def _sized(cls, mean: Tensor, matrix: Tensor, centred: Tensor) -> Scaling:
        """With rows of LENGTH on average."""
        size = (centred @ matrix.T).square().sum(1).mean().sqrt()
        return cls(mean, matrix * (LENGTH / size.clamp(min=1e-30)))

    def __call__(self, features: Tensor) -> Tensor:
        """z of each row."""
        return (features - self.mean) @ self.matrix.T

    def undo(self, head: Tensor) -> Tensor:
        """The linear classifier (C, D + 1) of z as one of x."""
        weight = head[:, :-1] @ self.matrix
        return torch.cat([weight, (head[:, -1] - weight @ self.mean)[:, None]], dim=1)


class Graph:
    """Each row linked with its nearest others, by angle, and with those whose nearest it is."""

    def __init__(self, rows: Tensor) -> None:
        count = neighbours(len(rows))
        ends = _nearest(torch.nn.functional.normalize(rows, dim=1), count).flatten()
        starts = torch.arange(len(rows), device=rows.device).repeat_interleave(count)
        links = torch.stack([torch.cat([starts, ends]), torch.cat([ends, starts])])
        degree = torch.bincount(links[0], minlength=len(rows)).to(rows.dtype)
        shape = (len(rows), len(rows))
        values = 1 / degree[links[0]]
        self.mean = torch.sparse_coo_tensor(links, values, shape, check_invariants=True).coalesce()

    def smoothed(self, p: Tensor, own: float, steps: int) -> Tensor:
        """Repeat: a share `own` of each row's first value, the rest the mean of its neighbours."""
        value = p
        for _ in range(steps):
            value = own * p + (1 - own) * (self.mean @ value)
        return value


@dataclass(frozen=True)
class Space:
    """Images as they lie to each other, whatever is labelled."""

    scaling: Scaling
    unit: Tensor  # directions of the scaled features, (N, D)
    graph: Graph

    @classmethod
    def of(cls, features: Tensor) -> Space:
        scaling = Scaling.of(features)
        unit = torch.nn.functional.normalize(scaling(features), dim=1)
        return cls(scaling, unit, Graph(unit))

    def scaled(self, features: Tensor) -> Tensor:
        """Directions of other images in the same space."""
        return torch.nn.functional.normalize(self.scaling(features), dim=1)

    def smoothed(self, steps: int, own: float = 0.1) -> Tensor:
        """Directions moved towards those of their neighbours: what is alike draws together."""
        return torch.nn.functional.normalize(self.graph.smoothed(self.unit, own, steps), dim=1)


def neighbours(rows: int) -> int:
    """log₂ of the rows keep a graph connected; more would link different classes."""
    return min(NEIGHBOURS, round(math.log2(rows)), rows - 1)


def _uncorrelated(correlation: Tensor, inverse: Tensor, shrinkage: float) -> Tensor:
    """A: columns times `inverse`, and then as far decorrelated as the shrinkage leaves."""
    identity = torch.eye(len(inverse), dtype=inverse.dtype, device=inverse.device)
    root = torch.linalg.cholesky(correlation + shrinkage * identity)
    matrix: Tensor = torch.linalg.solve_triangular(root, inverse.diag(), upper=False)
    return matrix


def _inverse(deviation: Tensor, mean: Tensor) -> Tensor:
    """1 / deviation of each column; 0 of a constant one, whose deviation is rounding."""
    least = torch.finfo(deviation.dtype).eps * 10 * mean.abs().clamp(min=1e-30)
    return torch.where(deviation <= least, 0.0, 1 / deviation.clamp(min=1e-30))


def _nearest(unit: Tensor, count: int) -> Tensor:
    """The `count` other rows at the smallest angle, (N, count), in blocks of bounded memory."""
    found = []
    size = max(1, CELLS // len(unit))
    for first in range(0, len(unit), size):
        likeness = unit[first : first + size] @ unit.T
        own = torch.arange(len(likeness), device=unit.device)
        likeness[own, first + own] = -torch.inf
        found.append(likeness.topk(count, dim=1).indices)
    return torch.cat(found)
