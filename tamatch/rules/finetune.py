"""The rules for a run that starts from the weights of a pre-trained net.

As in `choose`, plain facts come in, and settings with their reasons go out.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from .choose import NOTHING, SIZES, Chosen, choice
from .pace import rounded

CPU_SIZE, GPU_SIZE = 128, 256  # pixels, at most, of a net whose patches cannot be made smaller
CPU_GRID, GPU_GRID = 8, 16  # patches in a row: a step takes as long as there are patches
USER_NET_LR = 1e-4  # of all layers: their order is unknown
LR, LAYER_DECAY = 1e-3, 0.65  # of the head, and from each layer to the one below
WARMUP_SHARE = 0.1
TUNED_SIZE, ENLARGED = 128, 2  # pixels, of photos that these enlarge so many times
RENEWED = (0.05, 0.15, 0.3, 0.5, 0.75)  # of the steps, after which TaMatch is solved anew
TUNED_STEPS = 6_000  # of a run on a GPU, at least
TUNED_PASSES = 5  # through the pool, at least, on a GPU
ENOUGH_PASSES = 1  # after which the tuned net was the better one in all trials
AGAINST = 1 / 8  # three mistakes more, and none less
HELD_OUT = 5  # one of so many labels is kept from tuning, …
FEWEST_LABELS = 4  # … where each class has at least so many
NORMALISE = "half"  # as Google's and most of timm's transformers are trained


class Colours(NamedTuple):
    """What published weights are trained with: the mean and the deviation of colours up to 1."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    words: str


COLOURS = {
    "half": Colours((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), "colours from -1 to 1"),
    "imagenet": Colours(
        (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "ImageNet's mean and deviation"
    ),
    "clip": Colours(
        (0.48145466, 0.4578275, 0.40821073),
        (0.26862954, 0.26130258, 0.27577711),
        "CLIP's mean and deviation",
    ),
}


def grid(own: int, *, gpu: bool) -> int:
    """Patches in a row of an image: as many as the net is used to, but not too many to wait for."""
    return min(own, GPU_GRID if gpu else CPU_GRID)


def image_size(side: float | None, patch: int, own: int, *, gpu: bool) -> int:
    """A row of patches that holds the photos, with patches no larger than the net's own."""
    sizes = [grid(own, gpu=gpu) * p for p in divisors(patch)]
    fits = next((size for size in sizes if side is not None and side <= size), sizes[-1])
    return max(fits, min(SIZES[0], own * patch))


def published_size(own: int, patch: int, *, gpu: bool) -> int:
    """For a net whose patches stay as they are: its own size, or less, in whole patches."""
    return max(1, min(own, GPU_SIZE if gpu else CPU_SIZE) // patch) * patch


def size(pixels: int, side: float | None) -> Chosen:
    """The side of the images, for people."""
    why = "the photos' size is unknown" if side is None else f"the photos have {side:,.0f}"
    return choice("size", pixels, f"{pixels} × {pixels} pixels", why)


def patch_for(pixels: int, most: int, row: int) -> int:
    """The patch, up to `most` pixels, that cuts images into about `row` patches per row."""
    fitting = [p for p in divisors(pixels) if p <= most]
    return min(fitting, key=lambda p: abs(math.log(pixels / p / row)))


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def recipe(normalise: str = NORMALISE) -> Chosen:
    """How all layers are trained: gently, lower ones more so, and the last layer from zero."""
    return tuning(normalise) | Chosen({"head": "zero"}, {})


def tuning(normalise: str) -> Chosen:
    """The same for a last layer that is solved."""
    words = COLOURS[normalise].words
    return (
        choice("normalise", normalise, normalise, f"{words}, as such weights expect")
        | choice("optimizer", "adamw", "adamw", "usual for pre-trained nets")
        | choice("lr", LR, f"{LR:g}", "for the last layer; lower for each layer below it")
        | Chosen({"layer_decay": LAYER_DECAY}, {})
    )


def user_net_recipe() -> Chosen:
    """For a net of the user's own, of whose weights and layers nothing is known."""
    return (
        choice("normalise", "imagenet", "imagenet", "as most published weights expect")
        | choice("optimizer", "adamw", "adamw", "usual for pre-trained nets")
        | choice("lr", USER_NET_LR, f"{USER_NET_LR:g}", "low, as the net does not start at random")
    )


def net(name: str, original: str, weights: str, row: int = 0) -> Chosen:
    """The net of the weights, as it is or in another number of patches."""
    other = f", here in {row} × {row} patches" if name != original else ""
    return choice("net", name, name, f"{weights} holds a {original}{other}")


def warmup(steps: int) -> int:
    """Steps over which the learning rate grows: the last layer knows nothing at first."""
    return round(WARMUP_SHARE * steps)


def tuned_steps(pool: int, unlabelled: int) -> Chosen:
    """On a GPU, by the size of the pool."""
    passes = rounded(TUNED_PASSES * pool / unlabelled)
    count = max(TUNED_STEPS, passes)
    return choice("steps", count, f"{count:,}", f"usual for {pool:,} training images")


def tuned_size(made: int, patch: int, side: float | None) -> int:
    """At which a transformer is tuned: a third of the time a step, where small photos allow it.

    Steps count more than pixels there, and the net gets used to the size.
    """
    small = round(TUNED_SIZE / patch) * patch
    return small if side is not None and ENLARGED * side <= small < made else made


def renewed(passes: float) -> tuple[float, ...]:
    """The shares of the steps after which a net that is taught is taught anew.

    Each takes a look at the whole pool, so there are no more than `passes` through it.
    """
    return RENEWED[-min(len(RENEWED), math.ceil(passes)) :] if passes > 0 else ()


def held_out(fewest: int) -> Chosen:
    """How many labels of each class judge the tuned net, by those of the class with the fewest."""
    if fewest < FEWEST_LABELS:
        return NOTHING
    count = max(1, fewest // HELD_OUT)
    why = "kept from tuning, to judge whether that has helped"
    return choice("validation_per_class", count, f"{count} of each class", why)


def unjudged_remark(labels: Sequence[int], names: Sequence[str]) -> str:
    """What to know of tuning where classes have such numbers of labels, and none is held out."""
    few = [name for name, count in zip(names, labels, strict=True) if count < FEWEST_LABELS]
    why = "too many of them are copies of each other"
    if few:
        more = f" and {len(few) - 1:,} more of {len(names):,} classes" if len(few) > 1 else ""
        why = f'of "{few[0]}"{more} there are fewer than {FEWEST_LABELS}'
    return (
        f"Here no label is held out, as {why}. So nothing judges the tuned net: it is kept after "
        "a pass through the unlabelled images. With more labels, some are held out."
    )


def keeps(worse: int, better: int, labels: int, passes: float) -> tuple[bool, str]:
    """Whether the tuned net takes the place of the first answer, and why.

    Of the held-out labels, only the tuned net errs on `worse`, only the first answer on `better`.
    Ten labels show large differences alone, and in the trials, nearly all on EuroSAT, a net that
    had seen the pool once was the better one. So it is kept unless they speak against it:
    if it were as good, so many more mistakes would come by chance one time in eight at most. After
    a shorter tuning, it is kept if they speak for it.
    """
    long = passes >= ENOUGH_PASSES
    kept = by_chance(worse, better) > AGAINST if long else better > worse
    what = "The tuned net is kept" if kept else "The first answer is kept"
    seen = f"after {passes:.1f} passes through the unlabelled images"
    if not labels:
        usually = "tuning usually has helped" if long else "which is too little for it to help"
        return kept, f"{what}: no label is held out, and {seen} {usually}."
    told = f"of {labels} held-out labels, only tuning errs on {worse}, only the first answer on"
    told = f"{what}: {told} {better}"
    if kept and worse >= better:
        return kept, f"{told}; that says little, and {seen} tuning usually has helped."
    return kept, f"{told}." if long or kept else f"{told}, {seen}."


def by_chance(worse: int, better: int) -> float:
    """How often at least so many of the mistakes of one of two would be the first one's, if each
    were either's with equal probability.
    """
    both = worse + better
    return float(sum(math.comb(both, k) for k in range(worse, both + 1)) / 2**both)
