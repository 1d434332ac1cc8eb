"""Warnings that a run does not learn as it should: what is seen, the likely cause, the cure.

Each rule is a function of a few numbers; None means that all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .two_sample import TwoSampleTest

PATIENCE = 2000  # steps after the warm-up before anybody worries; a quarter of a shorter run
UNUSED_BELOW = 0.01  # share of the unlabelled images below which they count as not used
EXPECTED_IMAGES = 10  # of a class, before its absence means something
LISTED_CLASSES = 5  # class names in a sentence

SHIFT = "labelled and unlabelled images look different"  # the name of a rule


@dataclass(frozen=True)
class Symptom:
    """A warning in three parts."""

    name: str  # of the rule
    what: str
    cause: str
    cure: str

    def __str__(self) -> str:
        return f"Warning: {self.what} {self.cause} {self.cure}"


def patience(steps: int, warmup: int) -> int:
    """The step from which on a run should show what it can."""
    return min(steps, warmup + min(PATIENCE, steps // 4))


@dataclass(frozen=True)
class Reached:
    """How confident the model is on the pool, to explain why nothing is accepted."""

    best: float
    tau: float | None  # the method's threshold, where it has one
    lower: float | None  # a threshold that would accept some


def unused(used: float, step: int, ask: Callable[[], Reached]) -> Symptom | None:
    """Hardly any unlabelled image is accepted; only then the pool is asked why."""
    if used >= UNUSED_BELOW:
        return None
    reached = ask()
    bar, lower = "is confident enough", ""
    if reached.tau is not None:
        bar = f"reaches τ = {reached.tau:g}"
        if reached.lower is not None and reached.lower < reached.tau:
            lower = f"--tau {reached.lower:g}, "
    # what is learnt in so few steps is rarely sure of anything, whatever the learning rate
    early = step < PATIENCE
    return Symptom(
        "unlabelled images not used",
        f"after {step:,} step{'s' * (step != 1)}, {100 * used:.1f} % of the unlabelled images are "
        f"used: hardly any {bar} (highest confidence {reached.best:.2f}). So far this equals "
        "supervised training.",
        "There are probably too few steps; there may also be too few labels, or the learning rate "
        "is too high."
        if early
        else "The learning rate is probably too high, or there are too few labels or steps.",
        f"Try more --steps, {lower}a smaller --lr or more labels."
        if early
        else f"Try {lower}a smaller --lr, more --steps or more labels.",
    )


def never_predicted(
    predicted: Sequence[float],
    images: float,
    shares: Sequence[float],
    names: Sequence[str],
    method: str = "",
) -> Symptom | None:
    """A class that none of these images is taken for, although there should be many.

    `predicted` are the shares of the classes among `images` unlabelled images, `shares` those
    among the labelled ones.
    """
    likely = [images * min(share, 1 / len(names)) for share in shares]
    missing = [
        name
        for name, share, expected in zip(names, predicted, likely, strict=True)
        if share == 0 and expected >= EXPECTED_IMAGES
    ]
    if not missing:
        return None
    listed = ", ".join(f'"{name}"' for name in missing[:LISTED_CLASSES])
    more = f" and {len(missing) - LISTED_CLASSES} more" if len(missing) > LISTED_CLASSES else ""
    plural = len(missing) > 1
    other = "" if method.startswith("tamatch") else "; --method tamatch keeps weak classes alive"
    it, its, them = ("them", "their", "these classes") if plural else ("it", "its", "the class")
    return Symptom(
        "class never predicted",
        f"no unlabelled image is predicted as {'any of ' if plural else ''}{listed}{more}.",
        f"Either no unlabelled image shows {it}, or the model has given {them} up: {its} labelled "
        "images may be too few, unlike the unlabelled ones, or wrong.",
        f"Check {its} labelled images and add more{other}.",
    )


def distribution_shift(found: TwoSampleTest | None) -> Symptom | None:
    """Labelled and unlabelled images can be told apart by their looks."""
    if found is None or not found.differ:
        return None
    first, second = found.means
    return Symptom(
        SHIFT,
        f"{SHIFT}: simple statistics tell them apart "
        f"(AUC {found.auc:.2f}, where 0.5 is chance), above all {found.statistic} "
        f"({first:.2f} against {second:.2f}).",
        "They may differ in place, camera or preprocessing, or show different classes.",
        "Label some images from the pool itself, or remove from it what does not belong.",
    )
