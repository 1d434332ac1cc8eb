"""The first answer: TaMatch solved at once on what a pre-trained net says about the images.

A run whose net is called `frozen/NAME` is such a one. It trains nothing, and is a run like any
other for whoever uses it. Its baseline learns from the labels alone, on the same features.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import UNKNOWN, DataSet, Split
from ..data.dataset import Indices
from ..data.feature_cache import features_of
from ..data.splits import Mask
from ..errors import DataError
from ..frozen.blocks import telling, widened
from ..frozen.held_out import HeldOutError, LearningCurve, learning_curve
from ..frozen.junk import solve_with_junk
from ..frozen.likeness import Likeness
from ..frozen.regression import labels_alone
from ..frozen.solver import ACCEPTED, Solution, solve
from ..frozen.suspects import guessed_from_others, suspects
from ..machine.precision import restoring_threads
from ..model.model import Facts, Model
from ..nets import body_of
from ..nets.features import Frozen, frozen
from ..progress import counting
from ..settings.config import Run, in_order
from ..settings.hardware import pick_device
from ..settings.inputs import learnt_by, lineage, split_of
from ..step.source import PREDICTION_COLUMNS, Pool, Subset
from ..storage.spreadsheet import write_table
from .end import (
    PoolPredictions,
    junk_of,
    picture,
    result_of,
    summary,
    write_answers,
    write_result,
)
from .record import record_facts, record_skipped
from .start import Job, SharedData, remark_on_data, remark_on_skipped, seen_of

FRACTIONS = (0.5,)  # of the labels, for the learning curve; each costs as much as the error itself
FEW_ROWS = 20_000  # below that, one CPU thread is faster than several or a GPU
CPU = torch.device("cpu")
LOWER = "Colours and textures tell these classes: what lower blocks of the net see is used, too."
SINGLE = (
    "Cross-validation needs at least 2 labels of each class; {classes} {have} one. Label one more "
    "image of {it}."
)
UNFAIR = (
    "All labels are of images that were chosen because they tell much: an error on these would be "
    "far too high. To have it estimated, label images that are drawn at random: tamatch start asks "
    "for some, and tamatch pick lists some with --drawn."
)


def solve_run(job: Job, shared: SharedData) -> dict[str, Any]:
    """Bring a run of a frozen net to its end; features that are known already cost nothing."""
    began = time.perf_counter()
    run, folder, progress = job.run, job.folder, job.progress
    device = pick_device(run.device)
    if run.threads is not None:
        torch.set_num_threads(run.threads)
    data = shared.data(run)
    record_skipped(folder, data)
    split = split_of(run, data, run.size, folder.split)
    net = looking(run, data, device)
    seen = seen_of(data, split, learnt_by(lineage(run.from_), data, run.size))
    record_facts(run, folder, data, split, net.net, device, "stream", seen)
    folder.update(status="running")
    folder.cut_metrics({"bytes": 0})
    pool = None if run.method == "supervised" else Pool(data, split)
    if not job.is_baseline:
        remark_on_skipped(data, progress)
        remark_on_data(run, data, split, pool, seen, progress, cross_validated=True)
        if net.origin:
            progress.say(f"Weights {net.origin}")
    rows = features(net, data)
    described = time.perf_counter()

    used = columns(data, split, rows, net.upper)
    if net.upper < used and not job.is_baseline:
        progress.say(LOWER)
    found, error, guesses = learn(run, Task.of(run, data, split, rows, used, net.upper, device))
    net.net.set_head(found.head)
    answer = Answer(found, rows)
    parts = {"validation": split.validation, "test": split.test}
    held_out = {k: Subset(data, part) for k, part in parts.items() if len(part)}
    raw = {k: answer.probabilities(part.indices) for k, part in held_out.items()}
    for kind, part in held_out.items():
        scores = part.score(torch.from_numpy(raw[kind]))
        told = {"error": scores.error, "per_class": scores.per_class}
        folder.append({"step": 1, "kind": kind, **told})
    if pool is not None and len(pool):
        folder.append({"step": 1, "kind": "train", "used": ACCEPTED[-1], **answer.shares(pool)})

    def predict_pool(pool: Pool, temperature: float) -> tuple[PoolPredictions, dict[str, Any]]:
        answers = answer.of_pool(pool, temperature)
        told = {**answer.shares(pool), "factors": None, "weights": None, "tau": None}
        return answers, summary(answers, pool, told)

    model = Model(Facts.of(run.net, data), net.net, found.likeness)
    predicted = write_answers(folder, model, raw, held_out, pool, predict_pool)
    doubted = None
    if pool is not None and run.fold is None:
        doubted = write_suspects(data, split, rows[:, :used], guesses, folder.path)
    result = result_of(run, folder.rows(), time.perf_counter() - began)
    result["first_answer"] = {
        "features_seconds": round(described - began, 3),
        "lower_blocks": net.upper < used,
        "pool_shares": None if pool is None else found.shares.tolist(),
        "suspects": doubted,
        **error,
    }
    result["junk"] = junk_of(predicted, data)
    write_result(folder, result, 1)
    return result


def looking(run: Run, data: DataSet, device: torch.device) -> Frozen:
    """The pre-trained net of a run."""
    return frozen(str(run.weights), data.size, device, body_of(run.net))


def features(net: Frozen, data: DataSet) -> Tensor:
    """A row for each image of the data."""
    with counting("looking at images") as count:
        found = features_of(data.images, data.image_digests(), net.key, net, count)
    return torch.from_numpy(found)


def columns(data: DataSet, split: Split, rows: Tensor, upper: int) -> int:
    """How many of the features, the first ones, tell the classes of the data: `upper` ones or all.

    By the labels that are learnt from.
    """
    seen, labels = np.concatenate([split.labelled, split.unknown]), data.labels[split.labelled]
    known = torch.full((len(seen),), UNKNOWN)
    known[: len(labels)] = torch.from_numpy(labels)
    with few_threads(0):
        return telling(rows[seen], known, upper).shape[1]


@dataclass(frozen=True)
class Learnt(Solution):
    """A solution, and how far images belong to the classes at all; None without a pool."""

    belongs: Tensor | None = None  # each image of the pool, 0 … 1
    likeness: Likeness | None = None  # any other image


@dataclass(frozen=True)
class Task:
    """What there is to learn from: features with their labels, those of the pool, known shares."""

    features: Tensor
    labels: Tensor
    pool: Tensor | None
    classes: tuple[str, ...]
    prior: Tensor | None
    none: Tensor  # features of images that were marked as no class
    width: int  # of the features that the solution is for; the first of these are given, …
    upper: int  # … and of these, so many are of the net's last block
    judged: Tensor | None = None  # (L,) labels that are a fair sample; None: as far as known, all

    @classmethod
    def of(
        cls, run: Run, data: DataSet, split: Split, rows: Tensor, used: int, upper: int,
        device: torch.device,
    ) -> Task:  # fmt: skip
        """Of a run, from the `used` first features of each image; few rows are faster on a CPU."""
        width, rows = rows.shape[1], rows[:, :used].to(device if len(rows) >= FEW_ROWS else CPU)
        labels = torch.from_numpy(data.labels[split.labelled]).to(rows.device)
        without = run.method == "supervised" or not len(split.unknown)
        prior = None
        if run.prior is not None:
            known = in_order(run.prior, data.classes, data.name)
            prior = torch.tensor(known, device=rows.device)
        chosen = np.isin(split.labelled, data.chosen)
        return cls(
            rows[split.labelled], labels, None if without else rows[split.unknown],
            tuple(data.classes), prior, rows[data.of_no_class], width, upper,
            torch.from_numpy(~chosen).to(rows.device) if chosen.any() else None,
        )  # fmt: skip

    def single(self) -> tuple[str, ...]:
        """The classes whose only label is one to hold out."""
        counts = torch.bincount(self.labels, minlength=len(self.classes))
        judged = self.labels if self.judged is None else self.labels[self.judged]
        alone = torch.unique(judged[counts[judged] < 2])
        return tuple(self.classes[c] for c in alone.tolist())

    def solved(self, belongs: Tensor | None = None) -> Learnt:
        """The solution, on the CPU; how far the pool `belongs` is estimated if it is not given."""
        x, y, classes = self.features, self.labels, len(self.classes)
        if self.pool is None:
            counts = torch.bincount(y, minlength=classes) / len(y)
            head = widened(labels_alone(x, y, classes), self.width)
            return Learnt(head.cpu(), torch.empty(0, classes), counts.cpu())
        if belongs is None:
            judged = solve_with_junk(x, y, self.pool, classes, self.prior, self.none, self.upper)
            found, belongs = judged.solution, judged.weight
        else:
            belongs = belongs.to(x)
            found = solve(x, y, self.pool, classes, self.prior, belongs)
        seen, pool, none = (part[:, : self.upper] for part in (x, self.pool, self.none))
        likeness = Likeness.of(seen, y, pool, belongs, classes, none).widened(self.width).cpu()
        head = widened(found.head, self.width).cpu()
        return Learnt(head, found.q.cpu(), found.shares.cpu(), belongs.cpu(), likeness)


@dataclass(frozen=True)
class Answer:
    """A solution, and what it says about the images with these rows of features."""

    found: Learnt
    rows: Tensor

    def probabilities(self, images: Indices, temperature: float = 1.0) -> np.ndarray:
        """(n, C) of these images."""
        return (self.found.logits(self.rows[images]) / temperature).softmax(1).numpy()

    def of_pool(
        self, pool: Pool, temperature: float, drawn: Mask | None = None,
        accepted: Indices | None = None,
    ) -> PoolPredictions:  # fmt: skip
        """Every image of the pool; all of them were seen, unless it is told which were drawn."""
        own = self.probabilities(pool.indices, temperature)
        order = np.argsort(-own, axis=-1, kind="stable")
        sure, label = self.found.q.max(1)
        return PoolPredictions(
            order[:, 0], own.max(-1), order[:, min(1, own.shape[1] - 1)], label.numpy(),
            sure.double().numpy(), np.ones(len(pool), bool) if drawn is None else drawn, accepted,
            None if self.found.belongs is None else self.found.belongs.double().numpy(),
        )  # fmt: skip

    def shares(self, pool: Pool) -> dict[str, Any]:
        """The class shares of the pool: as the model sees them, and as they were estimated.

        What belongs to no class has no part in them.
        """
        mean = np.average(self.probabilities(pool.indices), 0, self.found.belongs)
        return {"p_model": mean.tolist(), "p_target": self.found.shares.tolist()}


def learn(run: Run, task: Task) -> tuple[Learnt, dict[str, Any], Tensor | None]:
    """The solution, what is known of its error without a test set, and p (L, C) of the labels.

    The latter by solutions without each of them, where all are held out in turn.
    """
    judged = task.judged
    with few_threads(len(task.features) + (0 if task.pool is None else len(task.pool))):
        found = task.solved()
    unknown: dict[str, Any] = {"cross_validation": None, "learning_curve": None}
    unknown["chosen"] = 0 if judged is None else int((~judged).sum())
    if run.fold is not None:
        return found, unknown | {"reason": "The labels of --fold are held out."}, None
    if judged is not None and not judged.any():
        return found, unknown | {"reason": UNFAIR}, None
    if single := task.single():
        named = ", ".join(f'"{name}"' for name in single)
        have, it = ("have", "each of them") if len(single) > 1 else ("has", "it")
        return found, unknown | {"reason": SINGLE.format(classes=named, have=have, it=it)}, None
    curve = learning_curve(
        task.features, task.labels, task.pool, len(task.classes), task.prior, seed=run.seed,
        fractions=FRACTIONS, belongs=found.belongs, judged=judged,
    )  # fmt: skip
    known = {"cross_validation": outcome(curve.outcomes[-1]), "learning_curve": points(curve)}
    p = None if curve.p is None else curve.p.cpu()
    return found, unknown | known | {"reason": ""}, p


def write_suspects(
    data: DataSet, split: Split, rows: Tensor, guesses: Tensor | None, folder: Path
) -> int | None:
    """The labels that the features contradict, the surest first, and how many there are.

    Each is guessed from the others; None where a class has a single label.
    """
    known = Subset(data, split.labelled)
    if guesses is None:
        others = rows[known.indices], known.labels, rows[split.unknown], known.classes
        try:
            guesses = guessed_from_others(*others)
        except DataError:
            return None
    found = suspects(guesses, known.labels)
    wrong = slice(found.wrong)
    picked = zip(found.order[wrong], found.instead[wrong], found.confidence[wrong], strict=True)
    lines = [known.line(int(i), int(c), float(p)) for i, c, p in picked]
    if lines:
        write_table(folder / "suspects.csv", PREDICTION_COLUMNS, lines)
        picture(folder, "suspects", known, found.order[wrong].numpy())
    return found.wrong


def outcome(found: HeldOutError) -> dict[str, Any]:
    """In percent, as result.json has all errors."""
    low, high = found.interval
    return {"labels": found.labels, "error": 100 * found.error, "interval": [100 * low, 100 * high]}


def points(curve: LearningCurve) -> dict[str, Any]:
    """The errors with fewer labels, and what twice as many would bring."""
    low, expected, high = curve.doubled
    doubled = {"error": 100 * expected, "interval": [100 * low, 100 * high]}
    errors = [100 * found.error for found in curve.outcomes]
    return {"labels": [*curve.labels], "errors": errors, "doubled": doubled}


@contextmanager
def few_threads(rows: int) -> Iterator[None]:
    """One thread where the matrices are small."""
    with restoring_threads():
        if rows < FEW_ROWS:
            torch.set_num_threads(1)
        yield
