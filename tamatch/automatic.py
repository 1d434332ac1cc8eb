"""What the user left open, filled in: data and machine are asked, `choose` has the rules."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from . import choose, dist
from .build import baseline_config, data_of, engine_of, split_plan
from .choose import Chosen, Speed
from .config import Run, configure, stated
from .data import DATASETS, DataSet, Split, load, make_split, own_path
from .data.folder import typical_side
from .engine import WARM_STEPS, Engine
from .errors import UsageError
from .exam import Exam
from .hardware import pick_device, pick_precision
from .progress import counting

MEASURE = 2.0  # seconds of steps that are timed
SAMPLE = 512  # images that a test is timed with
ENDING = 10.0  # seconds for what comes before and after the training: imports, the report
PACE = ("steps", "warmup", "ema", "log_every", "test_every", "save_every")  # follow from a time
SHOWN = ("size", "net", "batch", "unlabelled", "steps", "precision")
NOTHING = Chosen({}, {})


@dataclass(frozen=True)
class Decided:
    """A complete run, and why each setting that nobody gave has its value."""

    run: Run
    reasons: dict[str, str] = field(default_factory=dict)
    occasion: str = ""  # what it was chosen for

    def lines(self) -> list[str]:
        """The choices for the screen; none where nothing was left open."""
        shown = [f"  {name:10} {self.reasons[name]}" for name in SHOWN if name in self.reasons]
        return [f"Chosen for {self.occasion}; options win:", *shown] if shown else []


def decide(
    given: Mapping[str, Any], config: Path | None = None, limit: str | None = None
) -> Decided:
    """The run that the user asks for, with what is left open chosen; options always win.

    The settings of a person's own images are chosen from these and from the device; with a time
    limit, so are the steps of any run. Where the time matters, the speed is measured.
    """
    began = time.perf_counter()
    left = None if limit is None else choose.parse_time(limit) - ENDING
    user = stated(given, config)
    if limit is not None and "steps" in user:
        raise UsageError("--steps and --time say the same thing twice: give one of them.")
    run = configure(given, config)
    own = run.data not in DATASETS
    if not own and limit is None:
        return Decided(run)

    fixed = {*user, *stated(given, config, taken=True)}  # by the user, or by the run it starts from
    if limit is not None:
        fixed -= {*PACE} - {*user}
    device = pick_device(run.device)
    chosen = NOTHING
    if own and "size" not in fixed:
        chosen |= size_of(own_path(run.data), device)
    run = configure(given, config, chosen.settings)
    with counting("reading images") as count:
        data = data_of(run, run.size, count)
    split = make_split(data, split_plan(run))
    if own:
        chosen |= fitting(split, device)
        run = configure(given, config, chosen.settings)
        chosen |= choose.pool_batch(run.batch)
        run = configure(given, config, chosen.settings)
    if limit is not None and left is not None:
        speeds = measured(run, data, split)
        chosen |= choose.in_time(limit, left - (time.perf_counter() - began), speeds)
    elif "steps" not in fixed:
        chosen |= steps_of(run, data, split, device)
    chosen |= paced(run, chosen.settings.get("steps", run.steps), own=own)
    if own and run.precision == "auto":
        chosen |= precision_of(run, device)

    forced = {k: v for k, v in chosen.settings.items() if limit and k in PACE and k not in user}
    reasons = {k: why for k, why in chosen.reasons.items() if k not in fixed}
    occasion = f"{len(data.images):,} images on {machine(device)}"
    return Decided(configure({**forced, **given}, config, chosen.settings), reasons, occasion)


def size_of(place: Path, device: torch.device) -> Chosen:
    """Photos by their headers; arrays are not made larger than they are."""
    gpu = device.type == "cuda"
    if place.suffix != ".npz":
        return choose.image_size(typical_side(place), gpu=gpu)
    side = load(place).size
    found = choose.image_size(side, gpu=gpu)
    return found if found.settings["size"] <= side else Chosen({"size": side}, found.reasons)


def fitting(split: Split, device: torch.device) -> Chosen:
    """The net and the batch, by what there is to learn from."""
    gpu = device.type == "cuda"
    images = len(split.labelled) + len(split.unlabelled)
    return choose.net(images, gpu=gpu) | choose.batch(len(split.labelled), gpu=gpu)


def steps_of(run: Run, data: DataSet, split: Split, device: torch.device) -> Chosen:
    """By the data; without a GPU, no more than end in a quarter of an hour."""
    gpu = device.type == "cuda"
    wanted = choose.steps(len(split.unlabelled), run.unlabelled, gpu=gpu)
    if gpu:
        return wanted
    return choose.at_most(choose.CPU_SECONDS - ENDING, wanted, measured(run, data, split))


def paced(run: Run, steps: int, *, own: bool) -> Chosen:
    """What follows from the number of steps."""
    settings: dict[str, Any] = {**choose.intervals(steps)}
    if own:
        settings["ema"] = max(run.ema, choose.average(steps)) if run.ema else 0.0
    else:
        settings["warmup"] = round(run.warmup * steps / run.steps)
    return Chosen(settings, {})


def precision_of(run: Run, device: torch.device) -> Chosen:
    """Told only: `auto` stays in the run, so that it may go on elsewhere."""
    found = pick_precision(run, device)
    why = "what a GPU is fastest with" if found == "bf16" else "a CPU gains nothing from less"
    return Chosen({}, {"precision": f"{found}: {why}"})


def machine(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{threads} CPU thread{'s' * (threads != 1)} (of {os.cpu_count()})"


def measured(run: Run, data: DataSet, split: Split) -> list[Speed]:
    """The speed of the run and, where it has one, of its baseline, by doing some real steps."""
    runs = [run, baseline_config(run)] if run.baseline == "supervised" else [run]
    return [speed_of(one, data, split) for one in runs]


def speed_of(run: Run, data: DataSet, split: Split) -> Speed:
    """Time the start, some steps and a part of a test; nothing of it is kept."""
    began = time.perf_counter()
    engine = engine_of(run, data, split)
    with engine.running():
        timed(engine, WARM_STEPS + 2 if engine.use_graph else 1)
        start = agreed(time.perf_counter() - began)
        steps, seconds, block = 0, 0.0, 1
        while seconds < MEASURE:
            seconds += agreed(timed(engine, block))
            steps, block = steps + block, 2 * block
        image = agreed(seconds_to_predict(engine, data, split))
    at_the_end = image * len(split.unlabelled) if engine.method.views.u else 0.0
    held_out = len(split.validation) + len(split.test)
    return Speed(start + at_the_end, seconds / steps, image * held_out)


def seconds_to_predict(engine: Engine, data: DataSet, split: Split) -> float:
    """Of one image, in a batch of some that lie at hand."""
    sample = Exam(data, split.labelled[:SAMPLE], engine.device)
    wait(engine)
    began = time.perf_counter()
    engine.probabilities(sample.images)
    wait(engine)
    return (time.perf_counter() - began) / len(sample)


def timed(engine: Engine, steps: int) -> float:
    wait(engine)
    began = time.perf_counter()
    for _ in range(steps):
        engine.advance()
    wait(engine)
    return time.perf_counter() - began


def wait(engine: Engine) -> None:
    if engine.stream is not None:
        engine.stream.synchronize()


def agreed(seconds: float) -> float:
    """The first process's clock counts for all, so that all do the same steps."""
    return float(dist.from_first(seconds))
