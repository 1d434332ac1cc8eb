"""Several processes in one run: the first one leads it, the others follow."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from .. import dist, methods, nets
from ..data import Split
from ..data.splitfile import ROLES
from ..errors import DataError, NumericError, Stopped
from ..machine.signals import StopSignals
from ..settings.config import Run
from ..settings.inputs import data_of
from ..step.engine import Engine
from ..storage.folder import RunFolder
from .build import engine_of
from .result import Finished
from .variants import without_start

if TYPE_CHECKING:
    from ..methods import AnyMethod
    from ..nets import AnyNet


def send_run(run: Run, folder: RunFolder, split: Split, engine: Engine) -> None:
    """Tell the other processes what they must know to take part in a run."""
    dist.broadcast(
        {
            "run": dataclasses.asdict(without_start(run)),
            "data": folder.read()["data"]["sha256"],
            "split": {role: torch.from_numpy(getattr(split, role)) for role in ROLES},
            "state": engine.state_dict(),
        }
    )


def send_end(end: Finished | NumericError) -> None:
    """Tell the other processes that there is nothing left to train, and what came of it."""
    assert isinstance(end, Finished)  # the error of a single run is raised
    dist.broadcast({**dataclasses.asdict(end), "path": str(end.path)})


def follow(method: AnyMethod | None = None, net: AnyNet | None = None) -> Finished:
    """What every process but the first does: take part in the runs that the first one leads.

    It never looks at the run folder, which may be on another machine.
    """
    with dist.joined(), StopSignals() as stop:
        while "state" in (order := dist.broadcast()):
            run = Run(**order["run"])
            if methods.is_user_code(run.method):  # that of a baseline is not
                methods.register_as(run.method, method)
            if nets.is_user_code(run.net):
                nets.register_as(run.net, net)
            data = data_of(run, run.size)
            if data.sha256() != order["data"]:
                raise DataError(
                    f"{data.name} has different images or labels here than in process 0."
                )
            split = Split(**{role: order["split"][role].numpy() for role in ROLES})
            engine = engine_of(run, data, split)
            engine.load_state_dict(order["state"])
            take_part(engine, stop)
    return Finished(Path(order["path"]), order["result"], order["baseline"])


def take_part(engine: Engine, stop: StopSignals) -> None:
    """Do the steps of a run, and nothing else; process 0 logs, tests and saves."""
    steps = engine.pace.steps
    with engine.running():
        while engine.steps_done < steps:
            engine.advance()
            if (asked := dist.largest(stop.received)) and engine.steps_done < steps:
                raise Stopped(asked, f"stopped at step {engine.steps_done:,} of {steps:,}.")
