"""The training loop: of one run, or of several that do each step together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from .. import dist
from ..errors import NumericError, Stopped
from ..machine.launch import StopSignals
from ..machine.memory import OutOfMemory, free_memory
from ..step.cost import memory_message
from ..step.joint_graph import JointGraph
from ..storage.folder import RunFolder
from .place import resume_command
from .training import Training

Outcome = dict[str, Any] | NumericError  # a run's result, or why it has none


def train_to_end(trainings: Sequence[Training], stop: StopSignals) -> list[Outcome]:
    """Train all runs to their ends; `Stopped` after a signal, with everything saved.

    Runs that have done fewer steps go first, until all have done the same number. One of several
    whose values are no longer finite ends with its error, and the others go on.
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
    """Replay a step of each; False where there was no room to record it: then less is to be taken.

    Recording does nothing yet, so that no step is lost.
    """
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
