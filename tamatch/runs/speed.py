"""How fast a run is on this machine, by doing some of its steps."""

from __future__ import annotations

import time

from ..data import DataSet, Split
from ..rules.pace import Speed
from ..settings.config import Run
from ..step.engine import WARM_STEPS, Engine
from ..step.subset import Subset
from ..step.timing import timed, wait
from .build import engine_of
from .variants import baseline_config

MEASURED_SECONDS = 2.0  # of steps
TESTED_IMAGES = 512  # that a test is timed with


def speeds_of(run: Run, data: DataSet, split: Split, runs: int = 1) -> list[Speed]:
    """The speed of the run and, where it has one, of its baseline.

    For several runs, as if the device did a step of each in turn; in parallel they are no slower.
    """
    kinds = [run, baseline_config(run)] if run.baseline == "supervised" else [run]
    found = [speed_of(one, data, split) for one in kinds]
    return [Speed(runs * one.start, runs * one.step, runs * one.test) for one in found]


def speed_of(run: Run, data: DataSet, split: Split) -> Speed:
    """Time the start, some steps and a part of a test; nothing of it is kept."""
    began = time.perf_counter()
    engine = engine_of(run, data, split)
    with engine.running():
        timed(engine, WARM_STEPS + 2 if engine.use_graph else 1)
        start = time.perf_counter() - began
        steps, seconds, block = 0, 0.0, 1
        while seconds < MEASURED_SECONDS:
            seconds += timed(engine, block)
            steps, block = steps + block, 2 * block
        image = seconds_to_predict(engine, data, split)
    at_the_end = image * len(split.unlabelled) if engine.method.views.u else 0.0
    held_out = len(split.validation) + len(split.test)
    return Speed(start + at_the_end, seconds / steps, image * held_out)


def seconds_to_predict(engine: Engine, data: DataSet, split: Split) -> float:
    """For one image, measured with a batch of labelled ones."""
    sample = Subset(data, split.labelled[:TESTED_IMAGES], engine.device)
    wait(engine)
    began = time.perf_counter()
    engine.probabilities(sample.images)
    wait(engine)
    return (time.perf_counter() - began) / len(sample)
