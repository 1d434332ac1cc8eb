"""TaMatch solved on the whole pool at once, on frozen features.

Given features x, some of them with labels y, of C classes; u = 1/C:

    z = A(x − centre), and its direction d = z / ‖z‖              features.Scaling
    g = for each pool image the class whose labels' mean is nearest, by angle
    centre = mean over classes of the mean x of labels and g; g again with it, CENTRINGS times
    t = share of each class among g, moved towards u by its noise; known shares π: (π + u) / 2
    p = labels spread over a graph of nearest neighbours         features.Graph
    for a = 0.2, 0.3, …, 0.9:
        q = Normalize(p ⊙ r), r = t / p_model, p_model = E[p]    rescaled
        ŷ = argmax q; the share a of the pool with the largest max q is accepted
        W = regression of labels and accepted ŷ on d, weighted   weights, regression.fit
        p = softmax(W·d), known labels fixed, smoothed over the graph
    A, centre from how images differ within the classes by q     features.Scaling.within
    the same once more from p on, for a = 0.5, 0.6, …, 0.9
    W = the last regression once more, on z                      linear in x
    π = share of each class among ŷ of the whole pool; known shares stay
    V = regression of the labels alone, on directions of x·b/w²  features.Scaling.of_classes
    W ← (1 − δ)·W + δ·V, δ = (1 − exp(−DOUBT·KL[π ‖ u])) / 2     mixed

As in training a net by TaMatch, predictions are rescaled towards a target and pseudo-labels are
weighted by class. p_model is exact instead of a running average, and acceptance is a share that
grows instead of a fixed confidence.

The target should lie half-way between the pool's shares and uniform: uniform fills rare classes
with images of others, and the shares themselves hide rare classes. The guesses g count about that,
because their errors are spread over the classes. That needs two things: angles, since the mean of a
class's labels is the longer the fewer they are; and the centre of evenly frequent classes, since
around the pool's mean the largest class has no direction. What the answers count in the end is
nearer to the pool's shares than t, and is told as their estimate.

The first A knows no classes, and takes from all directions alike in which images differ. With
answers at hand, the second takes from those in which images of one class do. t stays: guesses by
the second A are better, and so nearer to the pool's shares than half-way.

The more unequal these are, the more images of others are taken for the rare classes. So W moves
towards V, the classifier of the labels alone, which a pool cannot mislead, and at most half-way.
V does better without decorrelation, and where a column counts by b / w, the deviation between
classes over that within them, as answered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ..losses import kl, normalize, one_hot
from ..stats import EPS, ratio
from .features import LENGTH, Graph, Scaling
from .regression import fit, logits

ACCEPTED = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # share of the pool, round by round
ACCEPTED_AGAIN = ACCEPTED[3:]  # with the second A
LABEL_WEIGHT = 0.3  # of a class's labels, relative to the accepted images of a class on average, …
SKEW_WEIGHT = 30.0  # … plus this times KL[t ‖ u]: in a skewed pool pseudo-labels are less reliable
DOUBT = 8.0  # so that δ is near 0 for balanced pools, 0.3 at γ = 10 and 0.4 at γ = 50
CENTRINGS = 3  # more move the centre no further
NOISE = 0.05  # KL[t ‖ u] of a balanced pool by chance, with one label a class
SWEEPS = 3  # of rescaling: normalising the rows moves the mean again
SPREAD = (0.1, 30)  # own share and steps of spreading labels
SMOOTHING = (0.3, 3)  # own share and steps of smoothing predictions


@dataclass(frozen=True)
class Solution:
    """A linear classifier of features, and what is known of the pool."""

    head: Tensor  # (C, D + 1); the last column is the intercept
    q: Tensor  # class probabilities of the pool, (U, C)
    shares: Tensor  # π, (C,); without a pool those of the labels

    def logits(self, features: Tensor) -> Tensor:
        """Of any images, where all classes are equally frequent."""
        return logits(features, self.head)


def solve(
    features: Tensor, labels: Tensor, pool: Tensor, classes: int, prior: Tensor | None = None,
    belongs: Tensor | None = None,
) -> Solution:  # fmt: skip
    """Learn from labelled features (L, D) and a pool (U, D), which may be empty.

    `belongs` (U,), 0 … 1, says how likely each image of the pool is of one of the classes at all.
    What is not counts less: in the scaling, in p_model and π, among the accepted, in the fit.
    """
    count = len(labels)
    both = torch.cat([features, pool])
    belongs = pool.new_ones(len(pool)) if belongs is None else belongs.to(both)
    amounts = torch.cat([belongs.new_ones(count), belongs])
    scaling = Scaling.of(both, amounts)
    truth = one_hot(labels, classes).to(both.dtype)
    if not len(pool):
        even = weights(labels, labels[:0], belongs, classes, 1.0)
        head = fit(scaling(both), labels, even, classes)
        return Solution(scaling.undo(head), truth[:0], truth.mean(0))

    guess = nearest(scaling(both), labels, classes)
    for _ in range(CENTRINGS):
        centre = class_means(both, torch.cat([labels, guess]), classes, amounts).mean(0)
        scaling = replace(scaling, mean=centre)
        guess = nearest(scaling(both), labels, classes)
    if prior is None:
        target = estimated_target(counted(guess, classes, belongs), labels)
    else:
        prior = prior.to(both)
        target = (prior + 1 / classes) / 2

    seeds = torch.cat([normalize(truth.T).T, truth.new_zeros(len(pool), classes)])
    answered = Rounds(labels, truth, target, belongs)
    p, _ = answered.on(scaling(both), seeds, SPREAD, ACCEPTED)
    q = rescaled(p, target, belongs)
    members = torch.cat([truth, one_hot(q.argmax(1), classes) * q.amax(1, keepdim=True)])
    scaling = Scaling.within(both, members * amounts[:, None])
    p, head = answered.on(scaling(both), torch.cat([truth, q]), SMOOTHING, ACCEPTED_AGAIN)
    q = rescaled(p, target if prior is None else prior, belongs)
    shares = counted(q.argmax(1), classes, belongs) if prior is None else prior
    answers = torch.cat([labels, q.argmax(1)])
    columns = Scaling.of_classes(both, answers, amounts, classes)
    return Solution(
        mixed(scaling.undo(head), alone(columns, features, labels, classes), shares), q, shares
    )


@dataclass(frozen=True)
class Rounds:
    """Pseudo-labels from classifiers, and classifiers from pseudo-labels."""

    labels: Tensor
    truth: Tensor  # the same as rows, (L, C)
    target: Tensor
    belongs: Tensor

    def on(
        self, rows: Tensor, p: Tensor, spread: tuple[float, int], accepted: Sequence[float]
    ) -> tuple[Tensor, Tensor]:
        """Predictions of the pool, and W, on rows of labels and pool.

        The first pseudo-labels are `p`, spread over the graph of the rows.
        """
        count, classes = self.truth.shape
        directions = directed(rows)
        graph = Graph(directions)
        p = normalize(graph.smoothed(p, *spread))
        uniform = torch.full_like(self.target, 1 / classes)
        own = LABEL_WEIGHT + SKEW_WEIGHT * float(kl(self.target, uniform))
        head: Tensor | None = None
        for share in accepted:
            confidence, guess = rescaled(p[count:], self.target, self.belongs).max(1)
            number = max(1, round(share * float(self.belongs.sum())))
            surest = (confidence * self.belongs).topk(number).indices
            taken = torch.cat([torch.arange(count, device=rows.device), count + surest])
            answers = torch.cat([self.labels, guess[surest]])
            weight = weights(self.labels, guess[surest], self.belongs[surest], classes, own)
            head = fit(directions[taken], answers, weight, classes, start=head)
            p = torch.cat([self.truth, logits(directions[count:], head).softmax(1)])
            p = graph.smoothed(p, *SMOOTHING)
        return p[count:], fit(rows[taken], answers, weight, classes, start=head)


def alone(scaling: Scaling, features: Tensor, labels: Tensor, classes: int) -> Tensor:
    """V: the classifier of labels alone, all classes the same, by direction."""
    even = weights(labels, labels[:0], features.new_empty(0), classes, 1.0)
    return scaling.undo(fit(directed(scaling(features)), labels, even, classes))


def mixed(of_all: Tensor, of_labels: Tensor, shares: Tensor) -> Tensor:
    """The classifier of labels and pool, moved towards that of the labels by the pool's skew."""
    skew = float(torch.xlogy(shares, shares * len(shares)).sum())  # a known share may be 0
    doubt = (1 - math.exp(-DOUBT * skew)) / 2
    return (1 - doubt) * of_all + doubt * of_labels


def directed(rows: Tensor) -> Tensor:
    """Rows of equal length, which says little about the class."""
    return LENGTH * F.normalize(rows, dim=1)


def estimated_target(h: Tensor, labels: Tensor) -> Tensor:
    """t = u + s·(h − u), h the shares of the guesses; s = 1 − noise / KL[h ‖ u], at least 0.

    So a balanced pool is taken as balanced. The noise is that of the means of the labels, ∝ 1/n.
    """
    uniform = torch.full_like(h, 1 / len(h))
    noise = NOISE * (1 / torch.bincount(labels, minlength=len(h)).clamp(min=1)).mean()
    return uniform + (1 - noise / kl(h, uniform).clamp(min=EPS)).clamp(min=0) * (h - uniform)


def counted(guess: Tensor, classes: int, amounts: Tensor) -> Tensor:
    """The share of each class among guesses; one more guess of each keeps it above zero."""
    return normalize(torch.bincount(guess, amounts, minlength=classes).to(amounts) + 1)


def class_means(
    rows: Tensor, labels: Tensor, classes: int, amounts: Tensor | None = None
) -> Tensor:
    """The mean row of each class, (C, D), of rows that count `amounts`; zero without rows."""
    members = one_hot(labels, classes).to(rows.dtype)
    members = members if amounts is None else members * amounts[:, None]
    return normalize(members.T) @ rows


def nearest(rows: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The class whose labels have the mean at the smallest angle, for all rows but the labels'."""
    means = class_means(rows[: len(labels)], labels, classes)
    return (rows[len(labels) :] @ F.normalize(means, dim=1).T).argmax(1)


def rescaled(p: Tensor, target: Tensor, belongs: Tensor | None = None) -> Tensor:
    """Normalize(p ⊙ target / p_model), SWEEPS times, with the mean over the whole pool."""
    for _ in range(SWEEPS):
        mean = p.mean(0) if belongs is None else belongs @ p / belongs.sum()
        p = normalize(p * ratio(target, mean))
    return p


def weights(labels: Tensor, guess: Tensor, amounts: Tensor, classes: int, own: float) -> Tensor:
    """Of labels, then of pseudo-labels: all classes together weigh 1, and each the same.

    Pseudo-labels count `amounts`; in each class the labels together as much as `own` times the
    average class's pseudo-labels, so that in a rare class wrong ones do not outvote them. The
    paper's bound of the weights is left out: it keeps single steps of training stable, and here,
    where the shares are exact, it makes long-tailed pools worse.
    """
    known = own * (amounts.sum() if len(guess) else 1) / classes
    total = known + torch.bincount(guess, amounts, minlength=classes).to(amounts)
    of_labels = known / torch.bincount(labels, minlength=classes)[labels] / total[labels]
    return normalize(torch.cat([of_labels, amounts / total[guess]]))
