"""Labelling with live answers: after every label, a guess for all images and what to ask next.

The first images to label stand for as many others as possible (`choose`). From then on, of five
images, four stand for what is in doubt and no label speaks for yet, and one is drawn uniformly from
all that have no label: it keeps the estimate of the accuracy honest.

The estimate comes from a second solution, the judge, which does not learn from the drawn images:
how many of them it gets right is a fair sample of its accuracy on the images without a label, with
Wilson's interval. The answer itself also learns from the drawn images, so the estimate is rather
too low than too high. It can be better by no more than the share of images that it guesses
differently: so much is added to the upper end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..judge.trust import wilson
from .blocks import telling
from .choose import doubts, sample, spread_out
from .features import CELLS, NEIGHBOURS, Space
from .junk import solve_with_junk

CROWD = 3000  # images that the solver looks at, so that an answer takes a second
UNKNOWN = -1
NONE = -2  # marked as none of the classes
FIRST = 20  # images to label, before doubt counts and some are drawn: both would cost more
DRAWN = 5  # one of so many images to label is drawn at random
STEP = 10  # labels whose gain is estimated
PAYS = 0.005  # below that expected gain of STEP labels, more of them stop paying


@dataclass(frozen=True)
class Answer:
    """What is known of all N images after some labels."""

    classes: tuple[int, ...]  # with a label so far, in ascending order
    q: Tensor  # (N, len(classes)) probabilities; of a labelled image 1 and 0
    belongs: Tensor  # (N,) 0 … 1: of one of the classes at all
    labels: int

    @property
    def guess(self) -> Tensor:
        """The class of each image, (N,)."""
        return torch.tensor(self.classes)[self.q.argmax(1)]

    @property
    def confidence(self) -> Tensor:
        return self.q.amax(1)

    @property
    def junk(self) -> float:
        """The estimated share of images that belong to no class."""
        return float(1 - self.belongs.mean())


@dataclass(frozen=True)
class Estimate:
    """The accuracy on images without a label, a share of one."""

    judged: int  # drawn images that were guessed without having been learnt
    accuracy: float | None
    interval: tuple[float, float]  # at 95 %


class Live:
    """All images of a folder by their features (N, D), and the labels given so far.

    `labels` (N,) holds class numbers, UNKNOWN or NONE, and is changed by the caller from label to
    label; `drawn` (N,) says which of the labelled images were drawn at random. The first `upper`
    features are of the net's last block; whether all are used, the labels decide (`blocks`).
    """

    def __init__(self, features: Tensor, seed: int = 0, upper: int | None = None) -> None:
        self.features, self.upper = features, upper or features.shape[1]
        self.labels = torch.full((len(features),), UNKNOWN)
        self.drawn = torch.zeros(len(features), dtype=torch.bool)
        self.crowd = sample(len(features), CROWD, torch.empty(0, dtype=torch.int64), seed)
        self.look(features.shape[1])
        generator = torch.Generator().manual_seed(seed + 1)
        self.lottery = torch.randperm(len(features), generator=generator)

    def look(self, used: int) -> None:
        """Learn from so many of the features from now on."""
        self.telling = self.features[:, :used]
        self.space = Space.of(self.telling[self.crowd])
        self.near = _nearest_of(self.space.scaled(self.telling), self.space.unit)

    def answer(self, *, judge: bool = False) -> Answer | None:
        """Solve with the labels so far; None before two classes have one.

        A `judge` leaves out the images that were drawn.
        """
        given = self.labels >= 0
        if judge:
            given &= ~self.drawn
        known = given.nonzero()[:, 0]
        classes = torch.unique(self.labels[known])
        if len(classes) < 2:
            return None
        if not judge:
            there = torch.cat([known, self.crowd[~given[self.crowd]]])
            used = telling(self.features[there], self.labels[there], self.upper).shape[1]
            if used != self.telling.shape[1]:
                self.look(used)
        pool = self.crowd[~given[self.crowd] & (self.labels[self.crowd] != NONE)]
        none = (self.labels == NONE).nonzero()[:, 0]
        y = torch.searchsorted(classes, self.labels[known])
        found = solve_with_junk(
            self.telling[known],
            y,
            self.telling[pool],
            len(classes),
            none=self.telling[none],
            upper=self.upper,
        )
        belongs = self._spread(pool, found.weight)
        q = found.solution.logits(self.telling).softmax(1)
        q[pool] = found.solution.q
        q[known] = F.one_hot(y, len(classes)).to(q.dtype)
        belongs[known], belongs[none] = 1.0, 0.0
        return Answer(tuple(classes.tolist()), q, belongs, len(known))

    def next(self, count: int, answer: Answer | None = None) -> list[tuple[int, bool]]:
        """Images to label next, and which of them are drawn at random: to be noted in `drawn`."""
        left = self.labels == UNKNOWN
        here, asked = (~left[self.crowd]).nonzero()[:, 0], int((~left).sum())
        doubt = None
        if answer is not None and asked >= FIRST:
            doubt = doubts(answer.q[self.crowd]) * answer.belongs[self.crowd]
        telling = iter(self.crowd[spread_out(self.space, count, here, doubt)].tolist())
        lottery = iter(self.lottery[left[self.lottery]].tolist())
        found: dict[int, bool] = {}
        while len(found) < min(count, int(left.sum())):
            after = asked + len(found) - FIRST
            drawn = after >= 0 and after % DRAWN == DRAWN - 1
            image = next(lottery if drawn else telling, None)
            if image is None:  # all of the crowd have a label
                image, drawn = next(lottery), True
            found.setdefault(image, drawn)
        return [*found.items()]

    def estimate(self, answer: Answer) -> Estimate:
        """The accuracy of the judge on the drawn images that belong to a class."""
        drawn = (self.drawn & (self.labels >= 0)).nonzero()[:, 0]
        judge = self.answer(judge=True) if len(drawn) else None
        if judge is None:
            return Estimate(0, None, (0.0, 1.0))
        right = int((judge.guess[drawn] == self.labels[drawn]).sum())
        low, high = wilson(right, len(drawn))
        left = self.labels == UNKNOWN
        differs = float((judge.guess != answer.guess)[left].float().mean()) if left.any() else 0.0
        return Estimate(len(drawn), right / len(drawn), (low, min(1.0, high + differs)))

    def _spread(self, pool: Tensor, value: Tensor) -> Tensor:
        """A value of some images of the crowd for all images: the mean of the nearest of these."""
        known = torch.zeros(len(self.features), dtype=value.dtype)
        there = torch.zeros_like(known)
        known[pool], there[pool] = value, 1.0
        near = self.crowd[self.near]
        found = known[near].sum(1) / there[near].sum(1).clamp(min=1)
        return torch.where(there[near].sum(1) > 0, found, 1.0).index_put((pool,), value)


def gain(before: Answer, now: Answer) -> float:
    """The expected gain in accuracy of STEP more labels, from what those since `before` brought.

    By the present probabilities, each image's present guess is better than the guess before by
    q(now) − q(before), and a class that had no label then is a guess nobody could make. Labels
    bring the less the more there are: the gain of STEP labels falls as 1 / labels.
    """
    places = torch.tensor([now.classes.index(c) if c in now.classes else 0 for c in before.classes])
    old = now.q.gather(1, places[before.q.argmax(1)][:, None])[:, 0]
    brought = float(((now.q.amax(1) - old) * now.belongs).sum() / now.belongs.sum())
    since = max(1, now.labels - before.labels)
    return brought * STEP / since * before.labels / now.labels


def _nearest_of(rows: Tensor, crowd: Tensor) -> Tensor:
    """Positions of the nearest of a crowd, (N, NEIGHBOURS), in blocks of bounded memory."""
    size = max(1, CELLS // len(crowd))
    count = min(NEIGHBOURS, len(crowd))
    return torch.cat(
        [(part @ crowd.T).topk(count, dim=1).indices for part in torch.split(rows, size)]
    )
