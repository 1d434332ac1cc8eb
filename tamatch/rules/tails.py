"""The rule for the plain or the long-tailed form of TaMatch, by the class shares.

As in `choose`, plain facts come in, and settings with their reasons go out.
"""

import math
from collections.abc import Sequence

from .choose import Chosen, choice

PLAIN, TAILED = "tamatch", "tamatch_lt"
SOLVED = "tamatch_solved"  # the plain form of a tuned net
SKEWED = 0.03  # nats; balanced pools were estimated at 0.028 or less, those of γ = 10 above
DEVIATIONS = 2  # of what chance does to the shares of a sample


def form(
    labels: Sequence[int], pool: Sequence[float] | None, images: int, plain: str = PLAIN
) -> Chosen:
    """TaMatch-LT where the labels or the pool are more unequal than by chance.

    `labels` counts those of each class; `pool` has estimated shares of so many unlabelled images,
    or is None if there is no estimate.
    """
    total = sum(labels)
    shares = [count / total for count in labels]
    skews = [skew("labels", shares, total, [f"{count:,}" for count in labels])]
    if pool is not None:
        skews.append(skew("pool", pool, images, [f"{100 * share:.0f} %" for share in pool]))
    what = " and ".join(told for _, told in skews)
    unknown = "; the pool's shares are not known" if pool is None else ""
    if any(unequal for unequal, _ in skews):
        why = f"for unequal classes: {what}{unknown}; --method {plain} is the plain form"
        return choice("method", TAILED, TAILED, why)
    why = f"classes are about equally frequent: {what}{unknown}"
    return choice("method", plain, plain, why)


def skew(name: str, shares: Sequence[float], images: int, shown: Sequence[str]) -> tuple[bool, str]:
    """Whether shares are unequal, by their KL divergence from equal ones; the same in words."""
    order = sorted(range(len(shares)), key=shares.__getitem__)
    away = sum(share * math.log(len(shares) * share) for share in shares if share > 0)
    least = SKEWED + chance(len(shares), images)
    ends = f"{shown[order[-1]]} to {shown[order[0]]} a class"
    sign = ">" if away > least else "≤"
    return away > least, f"{name} {ends} (KL from equal {away:.2f} {sign} {least:.2f})"


def chance(classes: int, images: int) -> float:
    """KL from equal shares of so many images, drawn where all classes are equally frequent.

    2·n·KL is distributed as χ² with C − 1 degrees of freedom.
    """
    free = classes - 1
    return (free + DEVIATIONS * math.sqrt(2 * free)) / (2 * max(1, images))
