"""The rules by which a run on a person's own images gets its settings: plain facts in, values out.

Every value comes with the reason that is shown to the user. Nothing here reads a file or a clock.
`pace` has the rules for the length of a run, `finetune` those for a start from weights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

SIZES = (32, 64, 96)  # sides of the images that are ever chosen, in pixels
LOOKS = (224, 160)  # at which a pre-trained transformer looks; below, errors rise steeply
CPU_SIZE = 32  # at 64 pixels a step takes almost five times as long

CPU_NET, GPU_NET, GPU_NET_FEW = "wrn_10_1_clean", "wrn_28_2_clean", "wrn_16_2_clean"
FEW_IMAGES = 1000  # with fewer, a GPU trains the smaller net

LEAST_BATCH, GPU_BATCH = 8, 64  # a CPU always has the least: many small steps beat few large ones
LABELLED_BATCHES = 3  # in which about every label is seen
CPU_RATIO, GPU_RATIO = 1, 3  # unlabelled images to each labelled one

FLIPS = "horizontal"
UNEQUAL_FACTOR = 3  # times the labels of the smallest class: a remark says so
CLEARLY_FASTER = 0.8  # share of one thread's time that more threads must stay below


@dataclass(frozen=True)
class Chosen:
    """Settings by their names, and each with its reason in words."""

    settings: dict[str, Any]
    reasons: dict[str, str]

    def __or__(self, other: Self) -> Self:
        return type(self)(self.settings | other.settings, self.reasons | other.reasons)


NOTHING = Chosen({}, {})


def choice(name: str, value: Any, shown: str, why: str) -> Chosen:
    """One setting: its value, how that is shown, and why it was chosen."""
    return Chosen({name: value}, {name: f"{shown}: {why}"})


def image_size(side: float | None, *, gpu: bool) -> Chosen:
    """From the median of the photos' shorter sides: the smallest of `SIZES` that holds it."""
    fits = next((size for size in SIZES if side is not None and side <= size), SIZES[-1])
    if side is None:
        fits, why = CPU_SIZE, "the photos' size is unknown"
    elif not gpu and fits > CPU_SIZE:
        fits, why = CPU_SIZE, f"the photos have {side:,.0f}; larger is too slow without a GPU"
    else:
        why = f"the photos have {side:,.0f}"
    return choice("size", fits, f"{fits} × {fits} pixels", why)


def looked_at(side: float | None, most: int) -> int:
    """For a pre-trained net that resizes images to `most` itself: no larger than they are."""
    return most if side is None else min(most, max(8, math.ceil(side)))


def net(images: int, *, gpu: bool) -> Chosen:
    """From the device and the number of training images."""
    if not gpu:
        return choice("net", CPU_NET, CPU_NET, "small enough to train without a GPU")
    if images < FEW_IMAGES:
        why = f"a small net for fewer than {FEW_IMAGES:,} images"
        return choice("net", GPU_NET_FEW, GPU_NET_FEW, why)
    return choice("net", GPU_NET, GPU_NET, f"{images:,} training images and a GPU")


def flips() -> Chosen:
    """Nothing in the images tells whether their classes have a left and a right."""
    why = "most photos may be mirrored; use --flips none where left and right differ"
    return choice("flips", FLIPS, FLIPS, why)


def batch(labelled: int, *, gpu: bool) -> Chosen:
    """From the number of labels: a power of two, so that a few steps see every label."""
    if not gpu:
        shown = f"{LEAST_BATCH} labelled images per step"
        return choice("batch", LEAST_BATCH, shown, "without a GPU, many small steps work best")
    wanted = 2 ** int(math.log2(max(1, labelled / LABELLED_BATCHES)))
    size = min(max(wanted, LEAST_BATCH), GPU_BATCH)
    return choice("batch", size, f"{size} labelled images per step", f"there are {labelled:,}")


def pool_batch(labelled: int, *, gpu: bool) -> Chosen:
    """From the labelled batch."""
    ratio = GPU_RATIO if gpu else CPU_RATIO
    size = ratio * labelled
    return choice("unlabelled", size, f"{size} images per step", f"{ratio} per labelled image")


def precision(found: str, *, gpu: bool) -> Chosen:
    """What the device is fastest with, and why."""
    if gpu:
        return choice("precision", found, found, "fastest on this GPU")
    why = "faster on this CPU" if found == "bf16" else "lower precision is no faster on this CPU"
    return choice("precision", found, found, why)


def threads(available: int, one_thread: float, all_threads: float) -> Chosen:
    """From the seconds of a step: on a busy machine, threads that wait for each other are slow."""
    if all_threads < CLEARLY_FASTER * one_thread:
        gain = f"{one_thread / all_threads:.1f} × as fast as one"
        return choice("threads", available, f"{available}", gain)
    why = f"{available} are not clearly faster ({all_threads:.2g} s per step)"
    return choice("threads", 1, "1", why)


def unequal_labels_remark(labels: Sequence[int], names: Sequence[str]) -> str:
    """What to know of a uniform target where the classes have such numbers of labels."""
    most, least = max(labels), min(labels)
    if most <= UNEQUAL_FACTOR * least:
        return ""
    large, small = names[labels.index(most)], names[labels.index(least)]
    return (
        f'There are {most:,} labels of "{large}" and {least:,} of "{small}", and the target is '
        "uniform: all classes are expected to be equally frequent in the pool. If they are not, "
        "give the shares you know as --prior, or use --target labelled for those of the labels, or "
        "--target adaptive."
    )
