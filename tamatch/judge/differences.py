"""How far two sets of class shares, or the errors of two models, lie apart. Without NumPy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

CERTAIN = 1.96  # standard errors on either side of a 95 % interval


def kl(p: Sequence[float], q: Sequence[float]) -> float:
    """KL[p || q] in nats with 0 log 0 = 0; infinite where q rules out what p holds possible."""
    if len(p) != len(q) or not p:
        return math.nan
    if any(a > 0 and b <= 0 for a, b in zip(p, q, strict=True)):
        return math.inf
    total = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)
    return max(total, 0.0)


def chance_gap(a: float, b: float, images: int | None) -> float:
    """Two standard errors of the difference of two error rates, in points; 0 if n is unknown."""
    if not images:
        return 0.0
    return 2 * math.sqrt((a * (100 - a) + b * (100 - b)) / images)


@dataclass(frozen=True)
class Paired:
    """Error of the second model minus that of the first, in points, with its 95 % interval."""

    images: int
    gap: float
    low: float
    high: float

    @property
    def undecided(self) -> str:
        """What an interval on both sides of zero leaves open."""
        return (
            f"With {self.images} images, the first may be anywhere from {self.high:.1f} points "
            f"below the second to {-self.low:.1f} above it."
        )


def paired(better: int, worse: int, images: int) -> Paired:
    """Compare two models by how many images only the first, and only the second, has right.

    The interval is Bonett and Price's, which adds an image for either side: without them, a handful
    of images for one side would seem to prove it, and none for either that there is no difference.
    """
    count = images + 2
    mean, share = (better - worse) / count, (better + worse + 2) / count
    reach = CERTAIN * math.sqrt((share - mean**2) / count)
    low, high = max(-1.0, mean - reach), min(1.0, mean + reach)
    return Paired(images, 100 * (better - worse) / images, 100 * low, 100 * high)
