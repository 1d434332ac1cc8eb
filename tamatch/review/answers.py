"""Live answers, computed in a thread of their own: the newest labels win, and nobody waits."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ..frozen.live import PAYS, STEP, Answer, Live, gain
from ..frozen.suspects import contradicted, near_duplicates
from ..runs.first_answer import few_threads

SKIPPED = -3  # in `Given.labels`: asked for no more, guessed like any other
ASKED = 20  # images to label next that the page knows of
IDLE = 2.0  # seconds without a new label, before what takes longer is computed
FAILED = "The answer could not be computed; the terminal says why. Your labels are saved."


@dataclass(frozen=True)
class Given:
    """The labels at one moment."""

    change: int  # counts the moments
    unasked: int  # and the changes that were no label of an image that was asked for
    classes: tuple[str, ...]
    labels: Tensor  # (N,) numbers of classes; live.UNKNOWN, live.NONE or SKIPPED
    drawn: Tensor  # (N,) whether it was asked for by lot


class Answers:
    """What is known after the newest labels that an answer was computed for.

    `shown` is replaced as a whole, part by part: first the guesses and what to ask next, then the
    estimate, and when nobody has labelled for a while what takes longer.
    """

    def __init__(self, features: Tensor, upper: int | None = None) -> None:
        self.features, self.upper = features, upper or features.shape[1]
        self.shown: dict[str, Any] = {"version": 0, "change": -1}
        self.news = threading.Condition()
        self.wanted: Given | None = None  # None once it is being answered
        self.over = False
        self.past: list[Answer] = []  # with up to STEP labels less, and one with fewer
        self.unasked = 0  # changes that these have in common
        self.same: list[tuple[int, int]] | None = None

    @contextmanager
    def computed(self) -> Iterator[None]:
        """Answers come as long as this lasts."""
        thread = threading.Thread(target=self.work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self.news:
                self.over = True
                self.news.notify_all()
            thread.join()

    def tell(self, given: Given) -> None:
        """Have an answer to these labels computed as soon as the present one is done."""
        with self.news:
            self.wanted = given
            self.news.notify_all()

    def work(self) -> None:
        """Answer whatever is the newest, until it is over."""
        with few_threads(len(self.features)):
            self.live = Live(self.features, upper=self.upper)
            while True:
                with self.news:
                    self.news.wait_for(lambda: self.over or self.wanted)
                    given, self.wanted = self.wanted, None
                if self.over or given is None:
                    return
                try:
                    self.answer(given)
                except Exception:
                    traceback.print_exc()
                    self.publish(change=given.change, trouble=FAILED, done=True)

    def answer(self, given: Given) -> None:
        """All that there is to say to these labels, as long as they are the newest."""
        live = self.live
        live.labels, live.drawn = given.labels, given.drawn
        found = live.answer()
        asked = live.next(ASKED, found)
        guesses = {} if found is None else in_percent(found)
        self.publish(
            change=given.change, classes=given.classes, guesses=guesses, trouble=None, done=False,
            next=[image for image, _ in asked], lots=[image for image, by_lot in asked if by_lot],
            junk=None if found is None else found.junk,
        )  # fmt: skip
        if found is None:
            return self.publish(done=True)
        if self.outdated():
            return None
        estimate = live.estimate(found)
        self.publish(
            judged=estimate.judged, accuracy=estimate.accuracy, interval=estimate.interval,
            gain=self.gain_of(found, given.unasked), step=STEP, pays=PAYS,
        )  # fmt: skip
        if self.outdated(IDLE):
            return None
        if self.same is None:
            self.same = [pair[:2] for pair in near_duplicates(self.features[:, : self.upper])]
        doubtful = contradicted(live.telling, given.labels)
        told = [(image, instead, int(100 * sure)) for image, instead, sure in doubtful]
        return self.publish(same=self.same, suspects=told, done=True)

    def publish(self, **news: Any) -> None:
        with self.news:
            self.shown = {**self.shown, **news, "version": self.shown["version"] + 1}

    def outdated(self, seconds: float = 0) -> bool:
        """Whether there are newer labels, or come within these seconds."""
        with self.news:
            return self.news.wait_for(lambda: self.over or self.wanted is not None, seconds)

    def gain_of(self, now: Answer, unasked: int) -> float | None:
        """What STEP more labels may bring, by the last ones; None until there are so many.

        Only labels of images that were asked for tell: confirmed guesses teach nothing, and the
        next images that are asked for may teach much. After another change, it is as before until
        there are STEP labels more.
        """
        if unasked != self.unasked:
            self.past, self.unasked = [], unasked
        self.past = [answer for answer in self.past if answer.labels < now.labels]
        before = [answer for answer in self.past if answer.labels <= now.labels - STEP]
        self.past = [*before[-1:], *self.past[len(before) :], now]
        return gain(before[-1], now) if before else self.shown.get("gain")


def in_percent(answer: Answer) -> dict[str, list[int]]:
    """The guess of each image, its confidence, and how far it belongs to a class at all."""
    shares = {"sure": answer.confidence, "belongs": answer.belongs}
    rounded = {name: (100 * share).int().tolist() for name, share in shares.items()}
    return {"guess": answer.guess.tolist(), **rounded}
