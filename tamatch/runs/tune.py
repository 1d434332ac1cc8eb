"""Tuning: the net is trained on from the first answer, and kept where held-out labels say so.

RUN/first holds the first answer, a whole run that learns from all labels. Of these, the validation
images are kept from the tuning, and from the solution that it starts from. So the two can be
compared on them, with the same labels learnt.

A net that is taught (`methods.taught`) and TaMatch as solved on its features take turns: the
solution names the classes of the pool, the net learns them on strong views, and TaMatch is solved
anew on what it then sees. Small photos are tuned at a smaller size than that of the first answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import nets
from ..data import DataSet, Split
from ..data.dataset import take
from ..data.feature_cache import PART
from ..frozen.likeness import Likeness
from ..judge.trust import wilson
from ..methods.taught import Taught
from ..nets.features import Frozen, FrozenNet
from ..progress import counting
from ..pseudo.account import accepted
from ..rules import finetune
from ..settings.config import Run, method_options
from ..settings.configure import SOLVED
from ..settings.hardware import pick_device
from ..settings.inputs import split_of
from ..step.source import Pool, Subset
from ..storage.files import write_bytes
from ..storage.folder import RunFolder
from ..storage.record import ANSWERS, files_in
from .build import Start
from .end import PoolPredictions, drawn, junk_of, result_of, summary, told_by
from .first_answer import Answer, Learnt, Task, columns, features, few_threads, looking
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
    data: DataSet
    split: Split
    lent: bool  # whether these labels are to be learnt from once they have judged
    solution: Learnt  # without these labels
    used: int  # features that tell the classes, the first ones; …
    upper: int  # … of the net's last block


def first_job(job: Job) -> Job:
    """The first answer of a run, from all labels but those that the user holds out."""
    run, folder = job.run, job.folder
    method = run.method if run.method in SOLVED else SOLVED[0]
    first = replace(
        run, net=nets.FROZEN + nets.first_of(run.net), method=method, flips="none",
        baseline="none" if method == "supervised" else "supervised", **ONE_STEP,
        options={k: o.default for k, o in method_options(method).items()} | {
            k: v for k, v in run.options.items() if method == run.method
        },
    )  # fmt: skip
    if folder.lends_labels:
        first = replace(first, validation_per_class=0)
    return Job(first, folder.first, job.progress)


def start_of(job: Job, shared: SharedData) -> FirstAnswer:
    """Solve once more, without the labels that are held out; the features are known.

    The net begins with the last layer that is solved at the size at which it is tuned.
    """
    run, folder, first = job.run, job.folder, first_job(job).run
    data, device = shared.data(run), pick_device(run.device)
    split = split_of(run, data, run.size, folder.split)
    look = looking(first, data, device)
    rows = features(look, data)
    used = columns(data, split, rows, look.upper)
    answer = begun = solved(run, data, split, rows, used, look.upper)
    if nets.body_of(run.net) != nets.body_of(first.net):
        rows = features(looking(run, data, device), data)
        begun = solved(run, data, split, rows, used, look.upper, answer.found.belongs)
    p_model = torch.from_numpy(begun.probabilities(split.unlabelled)).double().mean(0)
    start = Start(begun.found.head, p_model, answer.found.shares)
    wrong = mistakes(answer, data, split)
    lent = folder.lends_labels
    return FirstAnswer(
        folder.first, start, wrong, data, split, lent, answer.found, used, look.upper
    )


def solved(
    run: Run, data: DataSet, split: Split, rows: Tensor, used: int, upper: int,
    belongs: Tensor | None = None,
) -> Answer:  # fmt: skip
    """What these labels and the pool tell on the `used` first of these features.

    A net that was tuned on the labels shows them closer to each other than any other images, so
    that many would seem to belong to no class: there, how far they `belong` is that of the first
    answer.
    """
    with few_threads(len(rows)):
        task = Task.of(run, data, split, rows, used, upper, pick_device(run.device))
        found = task.solved(belongs)
    return Answer(found, rows)


def mistakes(answer: Answer, data: DataSet, split: Split) -> Flags:
    """Of the validation images."""
    best = answer.probabilities(split.validation).argmax(-1)
    found: Flags = best != data.labels[split.validation]
    return found


class Tuning(Training):
    """A run that ends with the better of two models.

    At its end, the last layer is solved anew, on the features of the tuned net: with the
    labels that the first answer has to do without for a comparison, and then with all of them.
    """

    first: FirstAnswer
    answer: Answer | None = None  # at the end

    def begin(self) -> None:
        """What comes before the first step: among it, what a net that is taught begins with."""
        if self.engine.steps_done == 0:
            self.teach(self.first.solution)
        super().begin()

    def after_step(self, asked: int) -> None:
        """Teach a net anew where it is time to, then log, test and save."""
        shares = finetune.renewed(self.passes) if isinstance(self.engine.method, Taught) else ()
        if self.engine.steps_done in {round(share * self.steps) for share in shares} - {self.steps}:
            self.renew()
        super().after_step(asked)

    @property
    def passes(self) -> float:
        """Through the pool, from the first step to the last."""
        return self.steps * self.run.unlabelled / max(1, self.engine.method.task.unlabelled)

    def renew(self) -> None:
        """Solve TaMatch on what the net sees now: its last layer, and what it is to learn."""
        first, method = self.first, self.engine.method
        with self.engine.on_stream():
            rows = self.rows(cast(FrozenNet, method.final).eval(), first.split)
        found = self.solved(rows, first.split).found
        with self.engine.on_stream(), torch.no_grad():
            for net in {method.net, method.final}:
                head = cast(FrozenNet, net).head
                head.weight.copy_(found.head[:, :-1])
                head.bias.copy_(found.head[:, -1])
        self.teach(found)

    def teach(self, found: Learnt) -> None:
        """What a solution says of the pool; images of no class count less, labelled ones wholly."""
        method, data, split = self.engine.method, self.first.data, self.first.split
        if not isinstance(method, Taught):
            return
        known = np.isin(split.unlabelled, split.labelled)
        labels = torch.from_numpy(np.where(known, data.labels[split.unlabelled], 0))
        amounts = torch.from_numpy(known).float()
        if self.pool is not None and len(self.pool):
            places = torch.from_numpy(self.pool.places)
            labels[places] = found.q.argmax(1)
            amounts[places] = 1.0 if found.belongs is None else found.belongs.float()
        with self.engine.on_stream():
            method.teach(labels, amounts)

    def finish(self) -> dict[str, Any]:
        """Keep the tuned net, or the first answer."""
        first, run = self.first, self.run
        net = cast(FrozenNet, self.engine.method.final).eval()
        rows = self.rows(net)
        self.answer = self.solved(rows, first.split)
        wrong = mistakes(self.answer, first.data, first.split)
        worse, better = int((wrong & ~first.wrong).sum()), int((first.wrong & ~wrong).sum())
        kept, reason = finetune.keeps(worse, better, len(wrong), self.passes)
        if run.fold is not None:  # its labels judge the outcome, so they may not choose it
            kept, reason = True, "The tuned net is kept: the labels of --fold choose nothing."
        self.progress.say(reason)
        if first.lent and len(wrong):
            self.answer = self.solved(rows, with_validation(first.split))
            del self.held_out["validation"]
        net.set_head(self.answer.found.head.to(self.engine.device))
        self.test()
        result = result_of(run, self.folder.rows(), self.elapsed())
        tuned = rung(RUNGS[2], result, self.interval(result), outcome(wrong))
        if kept:
            result["junk"] = junk_of(self.write_answers(), first.data)
        else:
            result |= self.keep_first()
        told = {"kept": kept, "labels": len(wrong), "reason": reason}
        told |= {"wrong": int(wrong.sum()), "first_wrong": int(first.wrong.sum())}
        result["first_answer"] = first.folder.read_result()["first_answer"]
        result["tuning"] = {**told, "ladder": [*ladder(first.folder), tuned]}
        return self.conclude(result)

    def solved(self, rows: Tensor, split: Split) -> Answer:
        """On these features of the net as it is now."""
        first, belongs = self.first, self.first.solution.belongs
        return solved(self.run, first.data, split, rows, first.used, first.upper, belongs)

    def rows(self, net: FrozenNet, learnt: Split | None = None) -> Tensor:
        """The features of all images by the tuned net; with a split, zeros but for its training."""
        images, name = self.first.data.images, nets.body_of(self.run.net)
        wanted = np.arange(len(images))
        if learnt is not None:
            others = self.first.data.of_no_class
            wanted = np.unique(np.concatenate([learnt.labelled, learnt.unlabelled, others]))
        look, found = Frozen(net, name, self.run.normalise), torch.zeros(len(images), net.width)
        with counting("looking at images") as count:
            for start in range(0, len(wanted), PART):
                chosen = wanted[start : start + PART]
                found[chosen] = torch.from_numpy(look(take(images, chosen)))
                count(start + len(chosen), len(wanted))
        return found

    def likeness(self) -> Likeness | None:
        """By the features of the tuned net."""
        return None if self.answer is None else self.answer.found.likeness

    def predicted(self, part: Subset) -> Tensor:
        """By the last layer that is solved anew, where it is."""
        if self.answer is None:
            return super().predicted(part)
        return torch.from_numpy(self.answer.probabilities(part.indices))

    def predict_pool(self, pool: Pool, temperature: float) -> tuple[PoolPredictions, Any]:
        """The same, and what was accepted while tuning."""
        assert self.answer is not None
        method = self.engine.method
        count, seen = accepted(method), drawn(self.engine)[pool.places]
        times = None if count is None else count.cpu().numpy().astype(np.int64)[pool.places]
        found = self.answer.of_pool(pool, temperature, seen, times)
        told = told_by(method) | (self.answer.shares(pool) if isinstance(method, Taught) else {})
        return found, summary(found, pool, told)

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
        kept = (*names, "utilization", "junk")
        return {k: v for k, v in source.read_result().items() if k in kept}


def with_validation(split: Split) -> Split:
    """The same with the validation images among the labelled ones."""
    return replace(split, labelled=np.concatenate([split.labelled, split.validation]))


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
    """A row of the ladder, in percent and seconds; without the features, which all rows share."""
    looking = result.get("first_answer", {}).get("features_seconds", 0.0)
    return {
        "name": name, "error": result["error_last"], "interval": between, "held_out": held_out,
        "seconds": max(0.0, round(result["seconds"] - looking, 3)),
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
