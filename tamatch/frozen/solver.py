"""TaMatch solved on the whole pool at once, on frozen features.

Given features x, some of them with labels y, of C classes:

    z = A(x − mean), and its direction d = z / ‖z‖               features.Scaling
    π = class shares of the pool: given, or estimated            estimated_shares
    p = labels spread over a graph of nearest neighbours         features.Graph
    for a = 0.2, 0.3, …, 0.9:
        q = Normalize(p ⊙ r), r = π / p_model, p_model = E[p]    rescaled
        ŷ = argmax q; the share a of the pool with the largest max q is accepted
        w = u / (share of ŷ among the accepted)                  class_weights
        W = regression of labels and accepted ŷ on d, weights w  regression.fit
        p = softmax(W·d), known labels fixed, smoothed over the graph
    W = the last regression once more, on z                      linear in x

As in training a net by TaMatch, predictions are rescaled towards a target and pseudo-labels are
weighted by class. p_model is exact instead of a running average, and acceptance is a share that
grows instead of a fixed confidence. There are two targets: rescaling steers towards what the pool
holds, weights steer towards classes u that are learnt evenly. With the first for both, a rare class
would be found and then outvoted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..losses import kl, normalize, one_hot
from ..stats import EPS, ratio
from .features import LENGTH, Graph, Scaling
from .regression import fit, logits

ACCEPTED = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)  # share of the pool, round by round
LABEL_WEIGHT = 0.3  # of all labels together, relative to all accepted pseudo-labels, …
SKEW_WEIGHT = 30.0  # … plus this times KL[π ‖ u]: in a skewed pool pseudo-labels are less reliable
SWEEPS = 3  # of rescaling: normalising the rows moves the mean again
SPREAD = (0.1, 30)  # own share and steps of spreading labels
SMOOTHING = (0.3, 3)  # own share and steps of smoothing predictions
NOISE = 0.15  # over the fewest labels of a class: KL[h ‖ u] of a balanced pool, by chance


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
    certain = None if belongs is None else torch.cat([belongs.new_ones(count), belongs])
    scaling = Scaling.of(both, certain)
    rows = scaling(both)
    truth = one_hot(labels, classes).to(rows.dtype)
    even = class_weights(labels, classes).to(rows.dtype)
    if not len(pool):
        return Solution(scaling.undo(fit(rows, labels, even, classes)), truth[:0], truth.mean(0))

    directions = LENGTH * F.normalize(rows, dim=1)  # the length of z says little about the class
    graph = Graph(directions)
    head = fit(directions[:count], labels, even, classes)
    if prior is None:
        prior = estimated_shares(logits(directions[count:], head), truth.sum(0).min(), belongs)
    seeds = torch.cat([normalize(truth.T).T, truth.new_zeros(len(pool), classes)])
    p = normalize(graph.smoothed(seeds, *SPREAD))
    label_weight = LABEL_WEIGHT + SKEW_WEIGHT * kl(prior, torch.full_like(prior, 1 / classes))
    amount = len(pool) if belongs is None else float(belongs.sum())
    for share in ACCEPTED:
        confidence, guess = rescaled(p[count:], prior, belongs).max(1)
        if belongs is not None:
            confidence = confidence * belongs
        surest = confidence.topk(max(1, round(share * amount))).indices
        guess, own = guess[surest], None if belongs is None else belongs[surest]
        weights = class_weights(guess, classes, own).to(rows.dtype)
        weights = torch.cat([label_weight * even, weights])
        accepted = torch.cat([torch.arange(count, device=rows.device), count + surest])
        answers = torch.cat([labels, guess])
        head = fit(directions[accepted], answers, weights, classes, start=head)
        p = torch.cat([truth, logits(directions[count:], head).softmax(1)])
        p = graph.smoothed(p, *SMOOTHING)
    head = fit(rows[accepted], answers, weights, classes, start=head)
    return Solution(scaling.undo(head), rescaled(p[count:], prior, belongs), prior)


def estimated_shares(z: Tensor, fewest: Tensor, belongs: Tensor | None = None) -> Tensor:
    """π of the pool from its logits by a regression on the labels that weighs classes evenly.

    π = u + s·(h − u): h, how often each class is the best guess, moved towards the uniform u by
    s = 1 − noise / KL[h ‖ u], so that a balanced pool is taken as balanced. The class with the
    fewest labels makes the noise: the regression misses it.
    """
    classes = z.shape[1]
    uniform = z.new_full((classes,), 1 / classes)
    guessed = torch.bincount(z.argmax(1), belongs, minlength=classes).to(z.dtype)
    h = normalize(guessed + 1)
    trust = (1 - NOISE / fewest / kl(h, uniform).clamp(min=EPS)).clamp(min=0)
    return uniform + trust * (h - uniform)


def rescaled(p: Tensor, target: Tensor, belongs: Tensor | None = None) -> Tensor:
    """Normalize(p ⊙ target / p_model), SWEEPS times, with the mean over the whole pool."""
    for _ in range(SWEEPS):
        mean = p.mean(0) if belongs is None else belongs @ p / belongs.sum()
        p = normalize(p * ratio(target, mean))
    return p


def class_weights(labels: Tensor, classes: int, amounts: Tensor | None = None) -> Tensor:
    """w ∝ u / share of the label's class: all classes together weigh 1, and each the same.

    The paper's bound of these weights is left out: it keeps single steps of training stable, and
    here, where the shares are exact, it makes long-tailed pools worse.
    """
    own = 1 if amounts is None else amounts
    return normalize(own / torch.bincount(labels, amounts, minlength=classes)[labels])
