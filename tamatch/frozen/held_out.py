"""What error to expect without a test set: from labels that the solver does not see.

The held-out images stay in the pool without their labels, as in use, where the images to be
classified are at hand. Two caveats: the labels were chosen by whoever labelled, so the figure is
about images like the labelled ones; and each part is learnt with fewer labels than there are, so
it errs towards too much rather than too little. Where some labels were drawn at random and others
were not, only the former should be `judged` (L,): the others are never held out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..errors import DataError
from ..judge.trust import wilson
from ..machine.threads import side_by_side
from .regression import labels_alone, logits
from .solver import solve

Array = npt.NDArray[np.float64]
FOLDS = 5
SURE = 1.96  # standard errors of the slope to either side, as in the interval of 95 %
FRACTIONS = (0.4, 0.6, 0.8)  # of the labels, for the learning curve; all but a fold is the last


@dataclass(frozen=True)
class HeldOutError:
    """The error on labels that were held out, a share of one."""

    labels: int  # held out, each of them once
    wrong: int
    interval: tuple[float, float]  # Wilson's, at 95 %, as if the labels were independent

    @property
    def error(self) -> float:
        return self.wrong / self.labels


@dataclass(frozen=True)
class LearningCurve:
    """Held-out errors with fewer labels, and what the trend says about twice as many."""

    labels: tuple[int, ...]  # that the solver saw
    outcomes: tuple[HeldOutError, ...]  # the last one is the cross-validated error
    slope: float  # b of error ∝ labels^−b; the range takes it as 0 … 1
    doubled: tuple[float, float, float]  # with twice the labels: low, expected, high
    p: Tensor | None  # (L, C) of each label by a solution without it; None where not all are judged


def cross_validated_error(
    features: Tensor, labels: Tensor, pool: Tensor | None, classes: int,
    prior: Tensor | None = None, folds: int = FOLDS, seed: int = 0, judged: Tensor | None = None,
) -> HeldOutError:  # fmt: skip
    """Hold out each label once, in parts that have about as many of each class.

    Without a `pool`, the error of learning from labels alone.
    """
    parts = parts_of(labels, folds, seed, judged)
    [(wrong, _)] = _guessed(features, labels, pool, classes, prior, parts, (1.0,), seed)
    return _outcome(wrong)


def learning_curve(
    features: Tensor, labels: Tensor, pool: Tensor | None, classes: int,
    prior: Tensor | None = None, folds: int = FOLDS, seed: int = 0,
    fractions: Sequence[float] = FRACTIONS, judged: Tensor | None = None,
    belongs: Tensor | None = None,
) -> LearningCurve:  # fmt: skip
    """The cross-validated error with a part of the other labels, and with all of them.

    `belongs` (U,) is how much each image of the pool counts, as in `solve`.
    A line through log error against log labels gives the slope, and `_trend` how sure it is. The
    range for twice the labels goes from the last point's lower bound and the steepest slope that is
    possible to its upper bound and the flattest.
    """
    parts = parts_of(labels, folds, seed, judged)
    learnt = len(labels) - int((parts >= 0).sum()) / int(parts.max() + 1)
    shares = (*fractions, 1.0)
    guessed = _guessed(features, labels, pool, classes, prior, parts, shares, seed, belongs)
    wrong, p = [flags for flags, _ in guessed], guessed[-1][1] if (parts >= 0).all() else None
    outcomes = tuple(_outcome(flags) for flags in wrong)
    seen = tuple(max(classes, round(learnt * share)) for share in shares)
    slope, deviation = _trend(seen, torch.stack(wrong).double().cpu().numpy())
    more, last = 2 * len(labels) / seen[-1], outcomes[-1]

    def then(error: float, slope: float) -> float:
        return error * math.exp(-math.log(more) * min(1.0, max(0.0, slope)))

    low = then(last.interval[0], slope + SURE * deviation)
    high = then(last.interval[1], slope - SURE * deviation)
    doubled = low, then(last.error, slope), high
    return LearningCurve(seen, outcomes, slope, doubled, p)


def _outcome(wrong: Tensor) -> HeldOutError:
    count, labels = int(wrong.sum()), len(wrong)
    right = wilson(labels - count, labels)
    return HeldOutError(labels, count, (1 - right[1], 1 - right[0]))


def _trend(seen: Sequence[int], wrong: Array) -> tuple[float, float]:
    """b of error ∝ seen^−b and its standard error, from a row of flags for each point (P, L).

    b = −Σ_p k_p·log e_p, the slope of a least-squares line. All points are about the same L
    labels, so the error is the root of the sum of squares of what each label brings to b:
    −Σ_p k_p·(wrong_p − e_p) / (L·e_p).
    """
    if len(set(seen)) < 2:
        return 0.0, 0.0
    x = np.log(seen)
    k = (x - x.mean()) / np.square(x - x.mean()).sum()
    labels = wrong.shape[1]
    error = (wrong.sum(1) + 0.5) / (labels + 1)  # finite logarithms with none wrong
    brought = (k / (labels * error)) @ (wrong - error[:, None])
    return -float(k @ np.log(error)), float(np.sqrt(np.square(brought).sum()))


def parts_of(labels: Tensor, folds: int, seed: int, judged: Tensor | None = None) -> Tensor:
    """A part for each label: within each class in turn, in random order; −1 if not `judged`."""
    counts = torch.bincount(labels)
    judged = torch.ones_like(labels, dtype=torch.bool) if judged is None else judged
    alone = labels[judged & (counts[labels] < 2)]
    if len(alone):
        raise DataError(
            "Cross-validation needs at least 2 labels of each class; class number "
            f"{int(alone.min())} has one. Label one more image of it."
        )
    generator = torch.Generator().manual_seed(seed)
    part = torch.full((len(labels),), -1)
    folds = min(folds, int(counts.max()))
    for class_ in range(len(counts)):
        own = (judged & (labels == class_)).cpu().nonzero()[:, 0]
        first = int(torch.randint(folds, (1,), generator=generator))
        part[own[torch.randperm(len(own), generator=generator)]] = (
            first + torch.arange(len(own))
        ) % folds
    return part.to(labels.device)


@dataclass(frozen=True)
class _Fold:
    """A part of the labels, and those that its solution sees."""

    held: Tensor  # flags of labels
    seen: Tensor


def _guessed(
    features: Tensor, labels: Tensor, pool: Tensor | None, classes: int, prior: Tensor | None,
    parts: Tensor, shares: Sequence[float], seed: int, belongs: Tensor | None = None,
) -> list[tuple[Tensor, Tensor]]:  # fmt: skip
    """What solutions that do not see a part say about it, for each share of the other labels.

    Whether the classifier errs on each label of a part; and p (L, C), which counts that these
    images are in the pool.
    """

    def guess(fold: _Fold) -> tuple[Tensor, Tensor]:
        x, y = features[fold.seen], labels[fold.seen]
        if pool is None:
            said = logits(features[fold.held], labels_alone(x, y, classes))
            return said.argmax(1), said.softmax(1)
        rest = torch.cat([features[~fold.seen], pool])
        amounts = rest.new_ones(len(rest))
        if belongs is not None:
            amounts[len(rest) - len(pool) :] = belongs
        found = solve(x, y, rest, classes, prior, amounts)
        own = found.q[: len(rest) - len(pool)][fold.held[~fold.seen]]
        return logits(features[fold.held], found.head).argmax(1), own

    groups = [_folds(labels, parts, share, seed) for share in shares]
    made = iter(side_by_side(guess, [fold for group in groups for fold in group]))
    guessed = []
    for group in groups:
        wrong, p = (
            torch.zeros_like(labels, dtype=torch.bool),
            features.new_zeros(len(labels), classes),
        )
        for fold, (guesses, rows) in zip(group, made, strict=False):
            wrong[fold.held], p[fold.held] = guesses != labels[fold.held], rows.to(p)
        guessed.append((wrong[parts >= 0], p))
    return guessed


def _folds(labels: Tensor, parts: Tensor, share: float, seed: int) -> list[_Fold]:
    generator = torch.Generator().manual_seed(seed + 1)
    folds = []
    for part in range(int(parts.max()) + 1):
        held = parts == part
        seen = ~held if share == 1 else _subset(~held, labels, share, generator)
        folds.append(_Fold(held, seen))
    return folds


def _subset(seen: Tensor, labels: Tensor, fraction: float, generator: torch.Generator) -> Tensor:
    """A fraction of each class, at least one of it."""
    kept = torch.zeros_like(seen)
    for class_ in range(int(labels.max()) + 1):
        own = (seen & (labels == class_)).nonzero()[:, 0]
        count = max(1, round(fraction * len(own)))  # a slice, so none of a class without labels
        kept[own[torch.randperm(len(own), generator=generator)[:count].to(own.device)]] = True
    return kept
