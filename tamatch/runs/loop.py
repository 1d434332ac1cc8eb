"""The training loop: of one run, of several that do each step together, of several processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from .. import dist, methods, nets
from ..data import Split
from ..data.splitfile import ROLES
from ..errors import DataError, NumericError, Stopped
from ..machine.launch import StopSignals
from ..machine.memory import OutOfMemory, free_memory
from ..methods import AnyMethod
from ..nets import AnyNet
from ..settings.config import Run
from ..settings.configure import without_start
from ..settings.inputs import data_of
from ..step.cost import memory_message
from ..step.engine import Engine, JointGraph
from ..storage.folder import RunFolder
from .build import engine_of
from .end import Finished
from .place import resume_command
from .training import Training

Outcome = dict[str, Any] | NumericError  # a run's result, or why it has none


def train_to_end(trainings: Sequence[Training], stop: StopSignals) -> list[Outcome]:
    """Train all runs to their ends; `Stopped` after a signal, with everything saved.

    Runs with fewer steps done go first. If the values of one of several are not finite, it ends
    with its error, and the others go on.
    """
    outcomes: dict[Training, Outcome] = {}
    begin(trainings)
    with stop, ExitStack() as around:
        for training in trainings:
            around.enter_context(training.under_way())
        joint = JointGraph()
        while pending := [t for t in trainings if t not in outcomes]:
            least = min(t.engine.steps_done for t in pending)
            level = [t for t in pending if t.engine.steps_done == least]
            moving, asked = [t for t in level if t.steps_left], 0
            if moving:
                advance(joint, moving)
                asked = dist.largest(stop.received)  # once: another may come before the stop
            for training in level:
                outcome = between_steps(
                    training, asked, moved=training in moving, alone=len(trainings) == 1
                )
                if outcome is not None:
                    outcomes[training] = outcome
            if asked and len(outcomes) < len(trainings):
                raise stopped(asked, [t for t in trainings if t not in outcomes])
    return [outcomes[training] for training in trainings]


def between_steps(training: Training, asked: int, *, moved: bool, alone: bool) -> Outcome | None:
    """Log, test and save a run; what came of it, if that was its end."""
    try:
        if moved:
            training.after_step(asked)
        return None if training.steps_left else training.finish()
    except NumericError as error:
        if alone:
            raise
        training.progress.say(f"{error} The other runs continue.")
        return error.with_traceback(None)  # it would hold the engine


def begin(trainings: Sequence[Training]) -> None:
    """What comes before the steps, and whether memory will suffice for all together."""
    for training in trainings:
        training.begin()
    lead, needs = trainings[0], [training.memory for training in trainings]
    if message := memory_message(needs, lead.engine.device):
        say = lead.progress.say if len(trainings) == 1 else lead.progress.screen.say
        say(message)


def advance(joint: JointGraph, trainings: Sequence[Training]) -> None:
    """A step of each: in one graph where it can be captured, one after the other elsewhere."""
    engines = [training.engine for training in trainings]
    try:
        if not (joint.ready(engines) and captured(joint, trainings)):
            joint.forget()
            for training in trainings:
                with training.engine.on_stream():  # where a captured step finds what they set up
                    training.advance()
    except OutOfMemory:
        if len(trainings) == 1:
            raise
    else:
        return
    free_memory()
    raise trainings[0].too_large(len(trainings))


def captured(joint: JointGraph, trainings: Sequence[Training]) -> bool:
    """Replay a step of each run; False if there was no memory to capture it: they use less now."""
    try:
        joint.replay([training.engine for training in trainings])
        return True
    except OutOfMemory:
        pass  # leave `except` first: the error keeps the tensors of the step alive
    free_memory()
    for training in trainings:
        training.reduce_memory()
    return False


def stopped(number: int, trainings: Sequence[Training]) -> Stopped:
    """All is saved; how to go on with it."""
    lead, whole = trainings[0], [RunFolder(t.folder.to_resume) for t in trainings]
    for training in trainings:
        training.folder.update(status="stopped")
    return Stopped(
        number,
        f"stopped at step {lead.engine.steps_done:,} of {lead.steps:,}; all is saved. "
        f"{resume_command(whole)} continues from there.",
    )


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
    """Take part in the runs that the first process leads, without looking at its run folder."""
    with dist.joined(), StopSignals() as stop:
        while "state" in (order := dist.broadcast()):
            run = Run(**order["run"])
            if methods.is_user_code(run.method):  # that of a baseline is not
                methods.CUSTOM.register_as(run.method, method)
            if nets.is_user_code(run.net):
                nets.CUSTOM.register_as(run.net, net)
            data = data_of(run)
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
