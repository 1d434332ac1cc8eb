"""How fast a run is on this machine, by doing some of its steps."""

import math
import time
from dataclasses import replace

from ..data import DataSet, Split
from ..rules.pace import Speed
from ..settings.config import Run
from ..settings.configure import baseline_config
from ..settings.hardware import pick_device
from ..step.cost import timed
from ..step.engine import WARM_STEPS, Engine
from ..step.source import Subset
from .build import engine_of

FEW = 1_000  # steps that repay compiling no net
MEASURED_SECONDS = 2.0  # of steps, at most
MEASURED_SHARE = 1 / 40  # of a time limit, at most
TESTED_IMAGES = 512  # that a test is timed with


class Speeds:
    """Measures each run once; the training that follows finds what was compiled for it."""

    def __init__(self, data: DataSet, split: Split, limit: float = math.inf) -> None:
        self.data, self.split = data, split
        self.seconds = min(MEASURED_SECONDS, MEASURED_SHARE * limit)
        self.found: dict[str, Speed] = {}  # by the settings

    def of(self, run: Run) -> Speed:
        """As a short run, whose net is not compiled: a longer one that repays it is faster."""
        short = replace(run, steps=min(run.steps, FEW))
        if (key := repr(short)) not in self.found:
            self.found[key] = speed_of(short, self.data, self.split, self.seconds)
        return self.found[key]

    def with_baseline(self, run: Run, runs: int = 1) -> list[Speed]:
        """The speed of the run and of its baseline, if it has one; several runs take turns."""
        kinds = [run, baseline_config(run)] if run.baseline == "supervised" else [run]
        found = map(self.of, kinds)
        return [Speed(runs * one.start, runs * one.step, runs * one.test) for one in found]


def speed_of(run: Run, data: DataSet, split: Split, measured: float = MEASURED_SECONDS) -> Speed:
    """Time the start, some steps and a part of a test; no result of it is kept."""
    if pick_device(run.device).type == "cuda":
        start_engine(run, data, split)  # compiles what the engines after it find ready
    began = time.perf_counter()
    engine = start_engine(run, data, split)
    start = time.perf_counter() - began
    with engine.running():
        steps, seconds, block = 0, 0.0, 1
        while seconds < measured:
            seconds += timed(engine, block)
            steps, block = steps + block, 2 * block
        sample = Subset(data, split.labelled[:TESTED_IMAGES], engine.device)
        image = timed(engine, 1, lambda: engine.probabilities(sample.images)) / len(sample)
    at_the_end = image * len(split.unlabelled) if engine.method.views.u else 0.0
    held_out = len(split.validation) + len(split.test)
    return Speed(start + at_the_end, seconds / steps, image * held_out)


def start_engine(run: Run, data: DataSet, split: Split) -> Engine:
    """An engine after its first steps, which are slower: on a GPU they are captured."""
    engine = engine_of(run, data, split)
    with engine.running():
        timed(engine, WARM_STEPS + 2 if engine.device.type == "cuda" else 1)
    return engine
