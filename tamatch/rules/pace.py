"""The rules for the length of a run, by the data or by a time limit, and for what depends on it.

As in `choose`, plain facts come in, and settings with their reasons go out.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from .choose import NOTHING, Chosen, choice

USUAL_STEPS = 10_000  # for a small folder
ENOUGH_STEPS = 10_000  # from about here on, pseudo-labels of a net that began at random were of use
POOL_PASSES = 20  # a large pool is seen this often
LONGEST_FACTOR = 4  # but no run is longer than this many times the usual one
CPU_SECONDS = 12 * 60  # without a GPU, a run that was given no time ends after this
LEAST_STEPS = 50
FEWEST_STEPS = 10  # within a time limit that has no room for more
GPU_SECONDS = 20  # of a time limit, at least, that a run on a GPU needs: its kernels are compiled
TRAINS = {"cuda": 45, "cpu": 30}  # a time limit of so many seconds is never refused
UNCOMPILED_SECONDS = 75  # a shorter time limit does not repay compiling a net or its kernels

TESTS, LOGS = 15, 60  # tests and log lines in a run, at most
GPU_SAVED = 1_500  # steps on a GPU from one checkpoint to the next, at least: some ten seconds
TEST_SHARE = 0.2  # of the time, at most, unless a single test takes longer
USABLE_SHARE = 0.85  # of the time: the machine may become busier after it was measured

LEAST_EMA, MOST_EMA = 0.5, 0.999  # of the averaged weights, by the length of the run
MOST_LEFT = 0.1  # of the initial weights in their average at the end
LEAST_NORM = 0.01  # statistics that are averaged over more steps lag behind the weights
TARGET_LEFT = 0.99999**262_144  # of a moving target's start, at the end of the paper's run

DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


@dataclass(frozen=True)
class Speed:
    """Seconds that were measured of one method: until the first step, of a step, of one test."""

    start: float
    step: float
    test: float


def steps(pool: int, unlabelled: int) -> Chosen:
    """From the size of the pool and of the unlabelled batch."""
    passes = rounded(POOL_PASSES * pool / unlabelled)
    count = min(max(USUAL_STEPS, passes), LONGEST_FACTOR * USUAL_STEPS)
    return choice("steps", count, f"{count:,}", f"usual for {pool:,} training images")


def short_run_remark(count: int) -> str:
    """What not to expect of a run of this many steps from a random start."""
    if count >= ENOUGH_STEPS:
        return ""
    return (
        f"With {steps_in_words(count)} from random weights, unlabelled images may not help yet; "
        f"{ENOUGH_STEPS:,} are better. Allow more --time, or start from pre-trained --weights."
    )


def average_remark(count: int, ema: float) -> str:
    """Weights that are averaged over more steps than a run has are nearly those of its start."""
    left, suits = ema**count, ema_momentum(count)
    if left <= MOST_LEFT or ema <= suits:
        return ""
    return (
        f"After {steps_in_words(count)} with --ema {ema:g}, {100 * left:.0f} % of the averaged "
        f"weights, which are tested, will still be the initial ones: --ema {suits:g} suits so "
        "short a run."
    )


def steps_in_words(count: int) -> str:
    return f"{count:,} step{'s' * (count != 1)}"


def steps_within(seconds: float, speeds: Sequence[Speed]) -> int:
    """How many steps of all these methods, one after the other, with their tests, fit."""
    apart = seconds_for(0, speeds, tests_within(seconds, speeds))
    fitting = (USABLE_SHARE * seconds - apart) / sum(speed.step for speed in speeds)
    return rounded(max(0.0, fitting))


def tests_within(seconds: float, speeds: Sequence[Speed]) -> int:
    """How many tests of each method do not take more than their share; at least that of the end."""
    each = sum(speed.test for speed in speeds)
    return max(1, min(TESTS, int(TEST_SHARE * seconds / each))) if each else TESTS


def seconds_for(count: int, speeds: Sequence[Speed], tests: int) -> float:
    """How long `count` steps of all these methods take, with `tests` tests of each."""
    return sum(speed.start + tests * speed.test + count * speed.step for speed in speeds)


def refuse_too_short(text: str, seconds: float, *, gpu: bool) -> None:
    """Before anything is compiled: an error if `seconds`, what is left of `--time`, cannot do."""
    least = GPU_SECONDS if gpu else 1
    if seconds < least:
        raise too_short(text, parse_time(text) - seconds + least, "too little is left for training")


def compiling(text: str, *, gpu: bool) -> Chosen:
    """Whether a run within a time limit compiles: in a short one, more steps fit without it."""
    if not gpu or parse_time(text) >= UNCOMPILED_SECONDS:
        return NOTHING
    return choice("compile", False, "off", f"does not pay within {text}")


def baseline_in_time(text: str, seconds: float, speeds: Sequence[Speed]) -> Chosen:
    """The baseline is left out where a time limit has room for the run alone."""
    if len(speeds) == 1 or steps_within(seconds, speeds) >= LEAST_STEPS:
        return NOTHING
    return choice("baseline", "none", "none", f"no time for one within {text}")


def steps_in_time(text: str, seconds: float, speeds: Sequence[Speed], device: str) -> Chosen:
    """As many steps as `--time` allows; `seconds` is what is left of it."""
    count = steps_within(seconds, speeds)
    if count < FEWEST_STEPS and parse_time(text) >= TRAINS[device]:
        takes = duration_in_words(parse_time(text) - seconds + seconds_for(FEWEST_STEPS, speeds, 1))
        why = f"the fewest that train: fewer fit into {text}, and these take about {takes}"
        found = choice("steps", FEWEST_STEPS, f"{FEWEST_STEPS}", why)
        return found | test_interval(FEWEST_STEPS, 1)
    if count < FEWEST_STEPS:
        gone = parse_time(text) - seconds  # spent before the first step
        need = (gone + seconds_for(LEAST_STEPS, speeds, tests=1)) / (USABLE_SHARE - TEST_SHARE)
        raise too_short(text, need, f"{steps_in_words(count)} would fit")
    why = f"as many as fit into {text}; {speed_in_words(speeds)}"
    found = choice("steps", count, f"{count:,}", why)
    return found | test_interval(count, tests_within(seconds, speeds))


def too_short(text: str, need: float, why: str) -> UsageError:
    enough = duration_in_words(10 * math.ceil(need / 10))
    return UsageError(
        f"--time {text} is too short for this run on this machine: {why}. Give {enough} or more."
    )


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


def intervals(count: int, *, gpu: bool = False) -> dict[str, int]:
    """How often a run of this many steps logs, tests and saves."""
    often = math.ceil(count / TESTS)
    saved = max(often, GPU_SAVED) if gpu else often
    return {"log_every": math.ceil(count / LOGS), "test_every": often, "save_every": saved}


def averages(count: int) -> dict[str, float]:
    """Momentum of the averaged weights, and of BatchNorm's statistics over at most 100 steps."""
    ema = ema_momentum(count)
    return {"ema": ema, "norm_momentum": round(max(LEAST_NORM, 1 - ema), 3)}


def ema_momentum(count: int) -> float:
    """The momentum of the averaged weights: a short run must forget its random start sooner.

    1 / (1 - momentum), the number of steps averaged over, is a tenth of the run at most.
    """
    return round(min(max(LEAST_EMA, 1 - 10 / count), MOST_EMA), 3)


def target_momentum(count: int) -> Chosen:
    """λ_target of a target that follows the model: as far from its start as in the paper's run."""
    value = round(TARGET_LEFT ** (1 / count), 7)
    why = f"after {count:,} steps, {100 * TARGET_LEFT:.0f} % of the target's uniform start is left"
    return choice("lambda_target", value, str(value), why)


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
