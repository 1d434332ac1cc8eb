"""The sections on classes and on mistakes: what is found, what is confused, at what confidence."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from markupsafe import Markup

from ..judge.figures import Reliability
from .album import album
from .folder import Figures
from .metrics import Points
from .svg import Across, Line, bar, line_chart
from .trust import Held
from .words import UNKNOWN, count, percent, points, share

MANY = 12  # beyond this many classes, only the ends of a ranking are shown at first
ENDS = 5
LISTED = 1000  # the fold-out lists no more, to keep the page small
LARGEST = 20  # classes; a larger matrix is unreadable, the most frequent mistakes say more
FREQUENT = 15  # mistakes listed where a matrix would be too large
FEWEST = 10  # images in a bin of confidence; a bin with fewer is not drawn
FEWEST_BINS = 3  # a curve of fewer points says nothing

Item = TypeVar("Item")
Confused = Mapping[tuple[int, int], int]  # images by true and predicted class


@dataclass(frozen=True)
class Ranking(Generic[Item]):
    """Items from lowest to highest; of many, the ends are shown and the rest is in a fold-out."""

    everything: list[Item]

    @property
    def folded(self) -> bool:
        """Whether there are too many to show at once."""
        return len(self.everything) > MANY

    @property
    def low(self) -> list[Item]:
        """The items shown first: all of them, or the lowest few."""
        return self.everything[:ENDS] if self.folded else self.everything

    @property
    def high(self) -> list[Item]:
        """The highest few, where `low` is not already everything."""
        return self.everything[-ENDS:] if self.folded else []

    @property
    def shown(self) -> list[Item]:
        """Both ends, or everything."""
        return self.low + self.high

    @property
    def listed(self) -> list[Item]:
        """What the fold-out holds."""
        return self.everything[:LISTED]


def rank(items: Sequence[Item], key: Callable[[Item], float]) -> Ranking[Item]:
    """Sort from lowest to highest; NaN comes last."""
    return Ranking(sorted(items, key=lambda item: (math.isnan(key(item)), key(item))))


@dataclass(frozen=True)
class ClassRow:
    """A class name, the cells beside it, and a bar that shows them."""

    name: str
    cells: tuple[str, ...]
    bar: Markup


def accuracy_table(
    run: Figures, baseline: Figures | None, labels: Sequence[int], held: Held | None
) -> tuple[list[str], Ranking[ClassRow]]:
    """Headers of the cells, and the classes from the worst to the best."""
    scores = held.classes if held is not None else ()
    counted = ["found", "precision", "correct"] if scores else []
    columns = ["labels", "recall", *counted, *(["baseline", "gain"] if baseline else [])]
    other = {} if baseline is None else baseline.by_class
    scored = list(zip(run.classes, run.per_class, strict=False))
    rows = []
    for index in rank(range(len(scored)), key=lambda index: scored[index][1]).everything:
        name, accuracy = scored[index]
        beside = other.get(name)
        cells = [count(labels[index]) if index < len(labels) else UNKNOWN, percent(accuracy)]
        if index < len(scores):
            one = scores[index]
            found, right = (
                f"{count(one.right)} of {count(n)}" for n in (one.images, one.predicted)
            )
            cells += [found, share(one.precision), right]
        elif scores:
            cells += [UNKNOWN] * 3
        if baseline is not None:
            cells += [percent(beside), points(None if beside is None else accuracy - beside)]
        rows.append(ClassRow(name, tuple(cells), bar(accuracy, beside)))
    return columns, Ranking(rows)


def label_counts(shares: Sequence[float], labelled: int | None) -> list[int]:
    """Labelled images of each class, from their shares."""
    if labelled is None or any(not math.isfinite(value) for value in shares):
        return []
    return [round(value * labelled) for value in shares]


def mistakes_of(held: Held, names: Sequence[str], run: Path) -> dict[str, Any]:
    """What the template shows of the mistakes, besides the scores in `held`."""
    pairs = {(true, predicted): images for true, predicted, images in held.confusion}
    return {
        "matrix": confusion_rows(pairs, names),
        "long_names": max(map(len, names), default=0) > 3,  # too long for narrow columns
        "frequent": frequent(pairs, names),
        "reliability_chart": _reliability_chart(held),
        "wrong": album("confident_wrong", held.confident_wrong, run),
        "doubtful": album("doubtful", held.doubtful, run),
    }


@dataclass(frozen=True)
class MatrixCell:
    """Images of one true class predicted as one class; `shade` in [0, 1] is for the background."""

    images: int
    shade: float
    right: bool


def confusion_rows(pairs: Confused, names: Sequence[str]) -> list[tuple[str, list[MatrixCell]]]:
    """The confusion matrix, one row per true class; empty for many classes."""
    if len(names) > LARGEST or not pairs:
        return []
    rows = []
    for true, name in enumerate(names):
        counts = [pairs.get((true, predicted), 0) for predicted in range(len(names))]
        total = sum(counts) or 1
        # The square root lifts rare mistakes, which a linear shade would leave invisible.
        cells = [
            MatrixCell(n, math.sqrt(n / total), true == predicted)
            for predicted, n in enumerate(counts)
        ]
        rows.append((name, cells))
    return rows


def frequent(pairs: Confused, names: Sequence[str]) -> list[tuple[str, str, int]]:
    """The most frequent (true, predicted, images) with true != predicted, if made twice."""
    wrong = [
        (names[true], names[predicted], n)
        for (true, predicted), n in pairs.items()
        if true != predicted and n > 1 and max(true, predicted) < len(names)
    ]
    return sorted(wrong, key=lambda one: (-one[2], one[:2]))[:FREQUENT]


def curve_of(found: Reliability) -> Points:
    """Mean confidence and accuracy of each bin with enough images, in percent."""
    return [(100 * b.confidence, 100 * b.accuracy) for b in found.bins if b.images >= FEWEST]


def _reliability_chart(held: Held) -> Markup:
    found = held.calibration
    lines = [Line("uncalibrated", curve_of(found.before))]
    if found.after is not None:
        lines.append(Line("with the temperature", curve_of(found.after), 3, "dashed"))
    if max(len(line.points) for line in lines) < FEWEST_BINS:
        return Markup("")
    return line_chart(
        "Accuracy at each confidence",
        [*lines, Line("perfectly calibrated", [(0.0, 0.0), (100.0, 100.0)], 8, "dotted")],
        note="In bins of 10 % confidence; bins with fewer than 10 images are not drawn.",
        unit=" %",
        across=Across("confidence", " %", (0.0, 100.0)),
    )
