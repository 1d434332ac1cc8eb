"""The rules by which a run on a person's own images gets its settings: plain facts in, values out.

Every value comes with the reason that is shown to the user. Nothing here reads a file or a clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError

SIZES = (32, 64, 96)  # sides of the images that are ever chosen, in pixels
CPU_SIZE = 32  # at 64 pixels a step takes almost five times as long

CPU_NET, GPU_NET, GPU_NET_FEW = "wrn_10_1_clean", "wrn_28_2_clean", "wrn_16_2_clean"
FEW = 1000  # training images below which a GPU gets the smaller net

LEAST_BATCH, GPU_BATCH = 8, 64  # a CPU always has the least: many small steps beat few large ones
PARTS = 3  # the labels are about so many labelled batches
CPU_RATIO, GPU_RATIO = 1, 3  # unlabelled images to each labelled one

CPU_STEPS, GPU_STEPS = 10_000, 10_000  # for a small folder
ENOUGH = 10_000  # from about here on, pseudo-labels of a net that began at random were of use
PASSES = 20  # a large pool is seen this often
MOST_LONGER = 4  # but no run is longer than this many times the short one
CPU_SECONDS = 12 * 60  # without a GPU, a run that was given no time ends after this
LEAST_EMA, MOST_EMA = 0.5, 0.999  # of the averaged weights, by the length of the run
LEAST_NORM = 0.01  # statistics that are averaged over more steps lag behind the weights

FLIPS = "horizontal"
TARGET_LEFT = 0.99999**262_144  # of a moving target's start, at the end of the paper's run
UNEQUAL = 3  # times the labels of the smallest class: a class with more is told of

CLEARLY = 0.8  # of the time of one thread that more threads must stay below

TESTS, LOGS = 15, 60  # tests and log lines in a run, at most
TEST_SHARE = 0.2  # of the time, at most, unless a single test takes longer
USABLE = 0.85  # of the time; the machine may become busier than it was when it was measured
LEAST_STEPS = 50

DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


@dataclass(frozen=True)
class Chosen:
    """Settings by their names, and each with its reason in words."""

    settings: dict[str, Any]
    reasons: dict[str, str]

    def __or__(self, other: Chosen) -> Chosen:
        return Chosen(self.settings | other.settings, self.reasons | other.reasons)


NOTHING = Chosen({}, {})


def choice(name: str, value: Any, shown: str, why: str) -> Chosen:
    return Chosen({name: value}, {name: f"{shown}: {why}"})


@dataclass(frozen=True)
class Speed:
    """Seconds that were measured of one method: until the first step, of a step, of one test."""

    start: float
    step: float
    test: float


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


def net(images: int, *, gpu: bool) -> Chosen:
    """From the device and the number of training images."""
    if not gpu:
        return choice("net", CPU_NET, CPU_NET, "small enough to train without a GPU")
    if images < FEW:
        return choice("net", GPU_NET_FEW, GPU_NET_FEW, f"a small net for fewer than {FEW:,} images")
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
    wanted = 2 ** int(math.log2(max(1, labelled / PARTS)))
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
    if all_threads < CLEARLY * one_thread:
        gain = f"{one_thread / all_threads:.1f} × as fast as one"
        return choice("threads", available, f"{available}", gain)
    why = f"{available} are not clearly faster ({all_threads:.2g} s per step)"
    return choice("threads", 1, "1", why)


def steps(pool: int, unlabelled: int, *, gpu: bool) -> Chosen:
    """From the size of the pool and of the unlabelled batch."""
    least = GPU_STEPS if gpu else CPU_STEPS
    count = min(max(least, rounded(PASSES * pool / unlabelled)), MOST_LONGER * least)
    return choice("steps", count, f"{count:,}", f"usual for {pool:,} training images")


def short_run_remark(count: int) -> str:
    """What a run of so many steps from a random start should not be expected to do."""
    if count >= ENOUGH:
        return ""
    return (
        f"With {count:,} steps from random weights, unlabelled images may not help yet; {ENOUGH:,} "
        "are better. Allow more --time, or start from pre-trained --weights."
    )


def steps_within(seconds: float, speeds: Sequence[Speed]) -> int:
    """How many steps of all these methods, one after the other, with their tests, fit."""
    apart = seconds_for(0, speeds, tests_within(seconds, speeds))
    fitting = (USABLE * seconds - apart) / sum(speed.step for speed in speeds)
    return rounded(max(0.0, fitting))


def tests_within(seconds: float, speeds: Sequence[Speed]) -> int:
    """How many tests of each method do not take more than their share; at least that of the end."""
    each = sum(speed.test for speed in speeds)
    return max(1, min(TESTS, int(TEST_SHARE * seconds / each))) if each else TESTS


def seconds_for(count: int, speeds: Sequence[Speed], tests: int) -> float:
    """How long that many steps of all these methods take, with so many tests of each."""
    return sum(speed.start + tests * speed.test + count * speed.step for speed in speeds)


def steps_in_time(text: str, seconds: float, speeds: Sequence[Speed]) -> Chosen:
    """As many steps as `--time` allows; `seconds` is what is left of it."""
    count = steps_within(seconds, speeds)
    if count < LEAST_STEPS:
        gone = parse_time(text) - seconds  # spent before the first step
        need = (gone + seconds_for(LEAST_STEPS, speeds, tests=1)) / (USABLE - TEST_SHARE)
        enough = duration_in_words(10 * math.ceil(need / 10))
        raise UsageError(
            f"--time {text} is too short for this run on this machine: {count} steps fit, but at "
            f"least {LEAST_STEPS} are needed. Give {enough} or more."
        )
    why = f"as many as fit into {text}; {speed_in_words(speeds)}"
    found = choice("steps", count, f"{count:,}", why)
    return found | test_interval(count, tests_within(seconds, speeds))


def steps_at_most(seconds: float, wanted: Chosen, speeds: Sequence[Speed]) -> Chosen:
    """The wanted number of steps, or fewer where this machine would take too long for them."""
    fitting = max(LEAST_STEPS, steps_within(seconds, speeds))
    why, tests = speed_in_words(speeds), tests_within(seconds, speeds)
    count = min(wanted.settings["steps"], fitting)
    if count < wanted.settings["steps"]:
        shown = f"as many as fit into {duration_in_words(seconds)} (--time allows more); {why}"
        return choice("steps", count, f"{count:,}", shown) | test_interval(count, tests)
    took = duration_in_words(seconds_for(count, speeds, tests))
    usual = wanted.reasons["steps"]
    found = Chosen(wanted.settings, {"steps": f"{usual}; {why}, {took} in total"})
    return found | test_interval(count, tests)


def test_interval(count: int, tests: int) -> Chosen:
    """How often a run is tested: less than `intervals` says where tests are slow."""
    return Chosen({"test_every": math.ceil(count / tests)}, {})


def intervals(count: int) -> dict[str, int]:
    """How often a run of this many steps logs, tests and saves."""
    often = math.ceil(count / TESTS)
    return {"log_every": math.ceil(count / LOGS), "test_every": often, "save_every": often}


def averages(count: int) -> dict[str, float]:
    """The averaged weights, and BatchNorm's statistics over as many steps, up to a hundred.

    A small batch says little about the statistics, and averaged weights want averaged ones.
    """
    ema = ema_momentum(count)
    return {"ema": ema, "norm_momentum": round(max(LEAST_NORM, 1 - ema), 3)}


def ema_momentum(count: int) -> float:
    """The momentum of the averaged weights: a short run must forget its random start sooner.

    1 / (1 - momentum) is the number of steps averaged over, here a tenth of the run at most.
    """
    return round(min(max(LEAST_EMA, 1 - 10 / count), MOST_EMA), 3)


def target_momentum(count: int) -> Chosen:
    """λ_target of a target that follows the model: as far from its start as in the paper's run."""
    value = round(TARGET_LEFT ** (1 / count), 7)
    why = f"after {count:,} steps, {100 * TARGET_LEFT:.0f} % of the target's uniform start is left"
    return choice("lambda_target", value, str(value), why)


def unequal_labels_remark(labels: Sequence[int], names: Sequence[str]) -> str:
    """What to know of a uniform target where the classes have such numbers of labels."""
    most, least = max(labels), min(labels)
    if most <= UNEQUAL * least:
        return ""
    large, small = names[labels.index(most)], names[labels.index(least)]
    return (
        f'There are {most:,} labels of "{large}" and {least:,} of "{small}", and the target is '
        "uniform: all classes are expected to be equally frequent in the pool. If they are not, "
        "give the shares you know as --prior, or use --target labelled for those of the labels, or "
        "--target adaptive."
    )


def speed_in_words(speeds: Sequence[Speed]) -> str:
    """The speeds in words; the second is the baseline's."""
    own, *baseline = (f"{speed.step:.2g} s" for speed in speeds)
    return f"a step takes {own} here" + "".join(f" (baseline: {its})" for its in baseline)


def rounded(count: float) -> int:
    """Down to two digits: more would only say how busy the machine happened to be."""
    whole = int(count)
    unit = int(10 ** max(0, len(str(whole)) - 2))
    return whole // unit * unit


def parse_time(text: str) -> float:
    """Seconds of `90s`, `20m`, `2h` or `1h30m`."""
    found = DURATION.fullmatch(str(text).strip().lower().replace(" ", ""))
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if total == 0:
        raise UsageError(f"--time takes a duration such as 90s, 20m, 2h or 1h30m, got {text!r}.")
    return float(total)


def duration_in_words(seconds: float) -> str:
    """`1h30m`, `20m` or `45s`; above some minutes, seconds are left out."""
    if seconds < 120:
        return f"{max(1, round(seconds))}s"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    return f"{hours}h{rest}m" if hours and rest else f"{hours}h" if hours else f"{minutes}m"
