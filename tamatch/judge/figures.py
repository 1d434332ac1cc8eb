"""What held-out images say about a model, as trust.json has it.

Reports read it without NumPy. Shares are shares of one; what cannot be said is None.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

LEVEL = 0.95  # of the confidence interval


@dataclass(frozen=True)
class Bin:
    """The images whose confidence falls between two tenths."""

    images: int
    confidence: float  # the mean
    accuracy: float


@dataclass(frozen=True)
class Reliability:
    """Does a confidence of 80 % mean that 80 % are right?"""

    confidence: float  # the mean over all images
    ece: float  # expected calibration error
    bins: tuple[Bin, ...]  # those that are not empty, by rising confidence


@dataclass(frozen=True)
class Calibration:
    """Confidence against accuracy, before and after the temperature where one was fitted."""

    before: Reliability
    after: Reliability | None
    temperature: float | None
    fitted_on: int  # validation images
    reason: str  # why no temperature was fitted, or how `after` was measured


@dataclass(frozen=True)
class ClassCounts:
    """One class: images of it, images predicted as it, and those that are both."""

    images: int
    predicted: int
    right: int

    @property
    def precision(self) -> float | None:
        """Of the images predicted as this class, the share that is right."""
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        """Of the images of this class, the share that was found."""
        return self.right / self.images if self.images else None


@dataclass(frozen=True)
class Trust:
    """What held-out images say about a model."""

    images: int
    right: int
    interval: tuple[float, float]  # of the accuracy, Wilson's, at LEVEL
    classes: tuple[ClassCounts, ...]
    confusion: tuple[tuple[int, int, int], ...]  # (true, predicted, images), no zeros
    calibration: Calibration

    @property
    def accuracy(self) -> float:
        return self.right / self.images

    @property
    def balanced_accuracy(self) -> float:
        """The mean recall of the classes that occur."""
        recalls = [c.recall for c in self.classes if c.recall is not None]
        return math.fsum(recalls) / len(recalls)

    def figures(self) -> dict[str, Any]:
        """As trust.json has them: shares of one, None where there is nothing to divide."""
        classes = [
            {**asdict(one), "precision": one.precision, "recall": one.recall}
            for one in self.classes
        ]
        own = {"accuracy": self.accuracy, "balanced_accuracy": self.balanced_accuracy}
        return {**asdict(self), **own, "level": LEVEL, "classes": classes}


@dataclass(frozen=True)
class Level:
    """What a threshold τ would accept: the share of the pool, and how much of that is right."""

    tau: float
    images: int
    used: float
    precision: float | None  # None where no true label is known, or nothing is accepted
