"""A short training of every row of Table 1 with its real net, on random images: does all of it run?

    python -m paper.trial [--help]

The weights start at random and the images are noise, so that no data set and no weight file is
needed. The errors mean nothing; that the losses are finite and fall, and that nothing stops, does.
"""

from __future__ import annotations

import math
import sys
import time
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from tamatch.bench.cells import Cell
from tamatch.bench.plans import PLANS, names, scale_of
from tamatch.bench.speed import Work, random_images, write_figures
from tamatch.cli import guarded
from tamatch.cli.parser import Parser
from tamatch.data.dataset import DataSet
from tamatch.data.splits import make_split
from tamatch.errors import TamatchError
from tamatch.machine.gpu import gpu_failure
from tamatch.runs.build import engine_of
from tamatch.settings.config import RUN_OPTIONS, Run
from tamatch.settings.configure import configure
from tamatch.settings.inputs import split_plan
from tamatch.step.cost import wait

PLAN = PLANS["usb"]
CLASSES = {"cifar100": 100, "stl10": 10, "eurosat": 10}
SIZES = {"cifar100": 32, "stl10": 96, "eurosat": 32}
FEWEST = 10  # steps in the means of the first and of the last losses, at most


@dataclass(frozen=True)
class Trial:
    """What became of one row."""

    setting: str
    method: str
    net: str
    steps: int
    ms_per_step: float | None  # None if no step was timed
    seconds: float  # with building, compiling and capturing
    first_loss: float | None  # mean over the first steps; None if it is not finite
    last_loss: float | None
    fault: str | None  # in words; None if all went well


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--methods", metavar="A,B", help="methods (default: all)")
    parser.add_argument("--settings", metavar="A,B", help="settings (default: one per data set)")
    parser.add_argument("--steps", type=int, default=200, help="steps per row (default: 200)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    compiling = "compile the nets, as in training; takes most of the time"
    parser.add_argument("--compile", action=BooleanOptionalAction, default=False, help=compiling)
    capturing = RUN_OPTIONS["graph"].help
    parser.add_argument("--graph", action=BooleanOptionalAction, default=True, help=capturing)
    parser.add_argument("--out", type=Path, help="also write the rows as JSON")


def command(arguments: Namespace) -> int:
    cells = chosen(arguments)
    switches = {name: getattr(arguments, name) for name in ("device", "compile", "graph")}
    print(f"{'setting':16} {'method':22} {'net':16}  steps  ms/step  loss: first → last")
    found = []
    for cell in cells:
        trial = attempt(cell, switches)
        found.append(trial)
        print(line(trial), flush=True)
    faults = sum(trial.fault is not None for trial in found)
    print(f"{len(found)} rows of {arguments.steps} steps, {faults} with a fault.")
    if arguments.out:
        write_figures(arguments.out, switches, trials=[asdict(trial) for trial in found])
    return 4 if faults else 0


def chosen(arguments: Namespace) -> list[Cell]:
    """The first seed of the wanted rows and settings, as short as was asked for."""
    first = {setting.data: setting.name for setting in reversed(PLAN.settings)}
    settings = tuple(setting.name for setting in PLAN.settings)
    wanted = names("--settings", arguments.settings or ",".join(first.values()), settings)
    methods = names("--methods", arguments.methods, PLAN.methods)
    cells = PLAN.cells("usb", (0,), scale_of(PLAN, None, arguments.steps))
    return [cell for cell in cells if cell.setting.name in wanted and cell.method in methods]


def line(trial: Trial) -> str:
    head = f"{trial.setting:16} {trial.method:22} {trial.net:16}"
    if trial.fault is not None:
        return f"{head}  FAULT: {trial.fault}"
    losses = f"{trial.first_loss:.3f} → {trial.last_loss:.3f}"
    return f"{head} {trial.steps:6} {trial.ms_per_step:8.2f}  {losses}"


def attempt(cell: Cell, switches: dict[str, Any]) -> Trial:
    """Train one row; a fault is reported, and the next row has its turn."""
    began = time.perf_counter()
    run = configure({**cell.options, **switches})
    losses: list[float] = []
    ms: float | None = None
    try:
        losses, ms = train(cell, run)
        fault = None if all(map(math.isfinite, losses)) else "the loss is not finite"
    except (TamatchError, RuntimeError, ValueError) as error:
        if gpu_failure(error):  # the rows after it would fail as well
            raise
        fault = f"{type(error).__name__}: {error}"
    few = max(1, min(FEWEST, len(losses) // 2))
    return Trial(
        setting=cell.setting.name, method=cell.method, net=run.net, steps=run.steps, ms_per_step=ms,
        seconds=time.perf_counter() - began, first_loss=mean(losses[:few]),
        last_loss=mean(losses[-few:]), fault=fault,
    )  # fmt: skip


def mean(values: Sequence[float]) -> float | None:
    found = sum(values) / max(1, len(values))
    return found if values and math.isfinite(found) else None


@cache
def images_of(name: str) -> DataSet:
    """Noise in the shape of a data set, with as many classes."""
    return random_images(Work({}, CLASSES[name], SIZES[name]))[0]


def train(cell: Cell, run: Run) -> tuple[list[float], float]:
    """All losses, and the milliseconds of a step once it is captured."""
    torch._dynamo.reset()
    data = images_of(cell.setting.data)
    engine = engine_of(run, data, make_split(data, split_plan(run)))
    losses: list[float] = []
    taken: list[float] = []
    with engine.running():
        while engine.steps_done < run.steps:
            began = time.perf_counter()
            engine.advance()
            wait(engine)
            taken.append(time.perf_counter() - began)
            values = engine.meter.read()
            losses.append(float(values["total"]) if values else math.nan)  # type: ignore[arg-type]
    return losses, 1000 * sorted(taken)[len(taken) // 2]


def main(argv: Sequence[str] | None = None) -> int:
    what = "train every row of Table 1 briefly, with its real net on noise"
    parser = Parser(prog="python -m paper.trial", description=what, allow_abbrev=False)
    add_arguments(parser)
    return guarded(lambda stdout: command(parser.parse_args(argv)), "paper.trial")


if __name__ == "__main__":
    sys.exit(main())
