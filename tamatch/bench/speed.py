"""How long a training step takes: the whole step, its augmentation, its memory."""

import argparse
import gc
import platform
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from ..data.dataset import DataSet, Pixels, Split
from ..errors import UsageError, unknown_name
from ..methods import BY_THEMSELVES
from ..runs.build import engine_of
from ..settings.config import RUN_OPTIONS
from ..settings.configure import configure
from ..step.cost import timed
from ..step.engine import Engine
from ..storage.files import write_json


@dataclass(frozen=True)
class Work:
    """A net and batch that users compare, on images of the right shape."""

    options: dict[str, Any]
    classes: int
    size: int


WRN = {"data": "cifar10-lt", "head_labelled": 500, "head_unlabelled": 4000}
WORKS: dict[str, Work] = {
    "wrn_28_2 64+128": Work(WRN, 10, 32),
    "wrn_28_2 64+448": Work({**WRN, "unlabelled": 448}, 10, 32),
    "wrn_28_2 64+128 96px": Work(WRN, 10, 96),  # where streaming has most to move
    "vit_small_p2_32 8+8": Work({"data": "cifar100"}, 100, 32),
    "vit_base_p16_96 8+8": Work({"data": "stl10"}, 10, 96),
}

HEADING = f"{'work':22} {'method':22} ms/step  images/s  augment ms  first steps s  peak GiB  busy"


@dataclass(frozen=True)
class Speed:
    """What was measured of one work and method."""

    work: str
    method: str
    ms_per_step: float  # median over blocks of steps
    images_per_second: float  # every view counted
    ms_augment: float  # gathering and augmenting alone, in its own graph
    seconds_to_first_steps: float  # compile, warm-up and capture
    peak_gib: float | None  # None on a CPU, as the next
    busy: float | None  # share of a step in which a kernel runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--works", default="all", help=f"of: {', '.join(WORKS)} (default: all)")
    parser.add_argument("--methods", default="tamatch", help="names separated by commas, or all")
    parser.add_argument("--steps", type=int, default=1000, help="steps timed (default: 1000)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--precision", default="auto", help="auto, fp32, tf32 or bf16")
    parser.add_argument("--images", default="device", help="where they are kept: device or stream")
    on_or_off = argparse.BooleanOptionalAction
    for name in ("compile", "kernels", "graph"):
        parser.add_argument(
            f"--{name}", action=on_or_off, default=True, help=RUN_OPTIONS[name].help
        )
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")


def run(arguments: argparse.Namespace) -> int:
    works = list(WORKS) if arguments.works == "all" else arguments.works.split(",")
    methods = list(BY_THEMSELVES) if arguments.methods == "all" else arguments.methods.split(",")
    if unknown := [w for w in works if w not in WORKS]:
        raise unknown_name("--works", unknown[0], WORKS)
    if arguments.steps < 1:
        raise UsageError(f"--steps must be at least 1, got {arguments.steps}.")
    names = ("device", "precision", "images", "compile", "kernels", "graph")
    switches = {name: getattr(arguments, name) for name in names}
    print(HEADING)
    found: list[Speed] = []
    for work in works:
        for method in methods:
            found.append(measure(work, method, arguments.steps, switches))
            print(line(found[-1]), flush=True)
    if arguments.out:
        write_figures(arguments.out, switches, speeds=[asdict(speed) for speed in found])
    return 0


def write_figures(path: Path, switches: dict[str, Any], **figures: Any) -> None:
    """As JSON, with what they were measured on."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
    facts = {"machine": name, "torch": torch.__version__, "switches": switches}
    write_json(path, {**facts, **figures})


def line(speed: Speed) -> str:
    peak = f"{'–':>9}" if speed.peak_gib is None else f"{speed.peak_gib:9.2f}"
    busy = "    –" if speed.busy is None else f"{speed.busy:5.0%}"
    return (
        f"{speed.work:22} {speed.method:22} {speed.ms_per_step:7.3f} "
        f"{speed.images_per_second:9,.0f} {speed.ms_augment:11.3f} "
        f"{speed.seconds_to_first_steps:14.1f} {peak} {busy}"
    )


def measure(name: str, method: str, steps: int, switches: dict[str, Any]) -> Speed:
    """Time one work; the images are random, their number and shape those of the real data."""
    work = WORKS[name]
    config = configure({**work.options, **switches, "method": method})
    data, split = random_images(work)
    if config.images == "stream":
        data = replace(data, images=mapped(data.images))
    torch._dynamo.reset()
    gc.collect()  # a compiled method holds itself, and so the memory of the work before
    engine = engine_of(config, data, split)
    cuda = engine.device.type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    with engine.running():
        first = timed(engine, 5)
        blocks = [timed(engine, max(1, steps // 20)) for _ in range(20)]
        ms_augment = augment_alone(engine, max(1, steps // 10))
        peak = torch.cuda.max_memory_allocated() / 2**30 if cuda else None
        working = ms_of_kernels(engine, 10) if cuda else None
    ms = 1000 * float(np.median(blocks)) / max(1, steps // 20)
    views = engine.method.views
    images = config.batch * len(views.x) + config.unlabelled * len(views.u)
    busy = None if working is None else min(1.0, working / ms)
    return Speed(name, method, ms, 1000 * images / ms, ms_augment, first, peak, busy)


def ms_of_kernels(engine: Engine, steps: int) -> float:
    """Milliseconds of a step in which at least one kernel runs."""
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        timed(engine, steps)
    spans = [e.time_range for e in seen.events() if e.device_type.name == "CUDA"]
    return covered((span.start, span.end) for span in spans) / 1000 / steps


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """The length of a union of intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def augment_alone(engine: Engine, repeats: int) -> float:
    """Milliseconds of making one batch, captured by itself where the step is captured."""
    make: Any = partial(engine.batch, engine.device_step)
    if engine.graph is not None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=engine.stream):
            make()
        make = graph.replay
    return 1000 * timed(engine, repeats, make) / repeats


def random_images(work: Work) -> tuple[DataSet, Split]:
    """A prototype per class under noise: something to learn, so that masks are not empty."""
    draw = np.random.default_rng(0)
    count = 12_000 // work.classes * work.classes
    labels = np.repeat(np.arange(work.classes), count // work.classes).astype(np.int64)
    shape = (work.size, work.size, 3)
    prototypes = draw.integers(0, 128, (work.classes, *shape), dtype=np.uint8)
    images = prototypes[labels] + draw.integers(0, 128, (count, *shape), dtype=np.uint8)
    every, none = np.arange(count), np.empty(0, np.int64)
    data = DataSet(
        name="random", classes=tuple(map(str, range(work.classes))), images=images, labels=labels,
        parts=(every, none, none, none), files=[str(i) for i in every],
        mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25),
    )  # fmt: skip
    return data, Split(every[::10], every)


def mapped(images: Pixels) -> Pixels:
    """The same images as a memory map, as the cache holds them."""
    with tempfile.TemporaryFile() as file:
        there: Pixels = np.memmap(file, np.uint8, "w+", shape=images.shape)
    there[:] = images
    return there
