"""Tuning: the net is trained on from the first answer, and kept where held-out labels say so.

RUN/first holds the first answer, a whole run that learns from all labels. Of these, the validation
images are kept from the tuning, and from the solution that it starts from. So the two can be
compared on them, with the same labels learnt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .. import nets
from ..judge.trust import wilson
from ..nets.features import frozen
from ..rules import finetune
from ..settings.config import method_options
from ..settings.configure import SOLVED
from ..settings.hardware import pick_device
from ..settings.inputs import split_of
from ..storage.files import write_bytes
from ..storage.folder import RunFolder
from ..storage.record import ANSWERS, files_in
from .build import Start
from .end import result_of
from .first_answer import Task, features, few_threads, probabilities
from .first_settings import ONE_STEP
from .start import Job, SharedData
from .training import Training

Flags = npt.NDArray[np.bool_]
RUNGS = "labels alone", "labels and unlabelled images", "net tuned"


@dataclass(frozen=True)
class FirstAnswer:
    """What tuning starts from, and is compared with."""

    folder: RunFolder  # of the one that has learnt from all labels
    start: Start
    wrong: Flags  # of the labels that are kept from both


def first_job(job: Job) -> Job:
    """The first answer of a run, from all labels but those that the user holds out."""
    run, folder = job.run, job.folder
    method = run.method if run.method in SOLVED else SOLVED[0]
    first = replace(
        run, net=nets.FROZEN + nets.body_of(run.net), method=method, flips="none",
        baseline="none" if method == "supervised" else "supervised", **ONE_STEP,
        options={k: o.default for k, o in method_options(method).items()} | {
            k: v for k, v in run.options.items() if method == run.method
        },
    )  # fmt: skip
    if "validation_per_class" in folder.read().get("chosen", {}):
        first = replace(first, validation_per_class=0)
    return Job(first, folder.first, job.progress)


def start_of(job: Job, shared: SharedData) -> FirstAnswer:
    """Solve once more, without the labels that are held out; the features are known."""
    run, folder = job.run, job.folder
    data, device = shared.data(run), pick_device(run.device)
    split = split_of(run, data, run.size, folder.split)
    net = frozen(str(run.weights), data.size, device, nets.body_of(run.net))
    rows = features(net, data)
    with few_threads(len(rows)):
        found = Task.of(run, data, split, rows, device).solved()
    p_model = torch.from_numpy(probabilities(found, rows[split.unlabelled])).double().mean(0)
    answers = probabilities(found, rows[split.validation]).argmax(-1)
    start = Start(found.head, p_model, found.shares)
    return FirstAnswer(folder.first, start, answers != data.labels[split.validation])


class Tuning(Training):
    """A run that ends with the better of two models."""

    first: FirstAnswer

    def finish(self) -> dict[str, Any]:
        """Keep the tuned net, or the first answer."""
        wrong, before = self.wrong(), self.first.wrong
        passes = self.steps * self.run.unlabelled / max(1, self.engine.method.task.unlabelled)
        kept, reason = finetune.keeps(int(wrong.sum()), int(before.sum()), len(wrong), passes)
        self.progress.say(reason)
        result = result_of(self.run, self.folder.rows(), self.elapsed())
        tuned = rung(RUNGS[2], result, self.interval(result), outcome(wrong))
        if kept:
            self.write_answers()
        else:
            result |= self.keep_first()
        told = {"kept": kept, "labels": len(wrong), "reason": reason}
        told |= {"wrong": int(wrong.sum()), "first_wrong": int(before.sum())}
        first = self.first.folder
        result["first_answer"] = first.read_result()["first_answer"]
        result["tuning"] = {**told, "ladder": [*ladder(first), tuned]}
        return self.conclude(result)

    def wrong(self) -> Flags:
        """Of the held-out labels, which the tuned net gets wrong."""
        part = self.held_out.get("validation")
        if part is None:
            return np.zeros(0, bool)
        best = self.engine.probabilities(part.images).argmax(-1).cpu().numpy()
        found: Flags = best != part.labels.numpy()
        return found

    def interval(self, result: dict[str, Any]) -> list[float] | None:
        """Of the test error."""
        part = self.held_out.get("test")
        return None if part is None else interval(result["error_last"], len(part))

    def keep_first(self) -> dict[str, Any]:
        """The files of the first answer become those of the run; its figures."""
        source = self.first.folder
        for name in files_in(source.path, ANSWERS):
            write_bytes(self.folder.path / name, (source.path / name).read_bytes())
        self.folder.update(warnings=[])
        names = "error_last", "error_median20", "error_best", "best_step", "per_class_accuracy"
        return {k: v for k, v in source.read_result().items() if k in (*names, "utilization")}


def ladder(first: RunFolder) -> list[dict[str, Any]]:
    """What labels alone reach, and what the pool adds, on the same features."""
    found = []
    for name, folder in zip(RUNGS, (first.baseline, first), strict=False):
        if folder.finished():
            result = folder.read_result()
            images = folder.read()["data"]["test"]
            between = interval(result["error_last"], images) if images else None
            found.append(rung(name, result, between, result["first_answer"]["cross_validation"]))
    return found


def rung(
    name: str, result: dict[str, Any], between: list[float] | None, held_out: dict[str, Any] | None
) -> dict[str, Any]:
    """A row of the ladder, in percent and seconds."""
    error, seconds = result["error_last"], result["seconds"]
    return {
        "name": name, "error": error, "interval": between, "held_out": held_out, "seconds": seconds,
    }  # fmt: skip


def outcome(wrong: Flags) -> dict[str, Any] | None:
    """The error on held-out labels."""
    if not len(wrong):
        return None
    error = 100 * float(wrong.mean())
    return {"labels": len(wrong), "error": error, "interval": interval(error, len(wrong))}


def interval(error: float, images: int) -> list[float]:
    """Wilson's, of an error in percent."""
    low, high = wilson(round((100 - error) / 100 * images), images)
    return [100 * (1 - high), 100 * (1 - low)]
