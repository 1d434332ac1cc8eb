"""What a run does between its steps: log, test, save, and warn of what should worry its user."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from torch import Tensor

from ..data import shares
from ..errors import DataError, NumericError
from ..frozen.likeness import Likeness
from ..judge import symptoms
from ..judge.symptoms import Reached, Symptom, evenly_spread, two_sample_test
from ..judge.trust import TAUS, Floats
from ..machine.gpu import gpu_failure
from ..machine.memory import OutOfMemory, free_memory
from ..model.model import Facts, Model
from ..progress import Progress
from ..pseudo.account import threshold
from ..settings.config import Run
from ..step.cost import estimate, too_large
from ..step.diagnosis import explain, overflow
from ..step.engine import Engine
from ..step.guard import ALLOWED_BAD_STEPS
from ..step.source import LABELLED, Pool, Subset
from ..storage import checkpoint
from ..storage.events import Callbacks, MLflow, TensorBoard, Tracker, Trackers, WandB
from ..storage.folder import RunFolder
from ..storage.record import STATE, wrong
from .end import (
    PoolPredictions,
    predict_pool,
    pseudo_label_probabilities,
    result_of,
    summary,
    told_by,
    write_answers,
    write_result,
)
from .record import changes_since, conditions

WINDOW = 1000  # images that a rule looks at, at least
PER_CLASS = 30  # and at least this many per class
SAMPLE = 512  # images of the pool that are asked why nothing is accepted
ENOUGH = 0.1  # share of them that a lower threshold should accept


@dataclass(eq=False)
class Training:
    """Everything that happens between two steps."""

    run: Run
    engine: Engine
    folder: RunFolder
    held_out: dict[str, Subset]
    facts: Facts
    progress: Progress
    pool: Pool | None = None
    callbacks: Callbacks | None = None
    kept: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        run, engine, pool = self.run, self.engine, self.pool
        self.watch = None if pool is None else Watch(run, engine, pool, self.folder, self.progress)
        self.steps = engine.pace.steps
        self.seconds = 0.0  # training time before this process
        self.bad_steps = 0  # as far as the user knows
        self.conditions = conditions(run, engine.device)
        self.trackers = Trackers(self.progress.say)

    def resume(self, state: dict[str, Any] | None) -> None:
        """Go back to a checkpoint, or to the start if there is none."""
        if state is not None:
            try:
                if error := next(wrong(state, STATE), None):
                    raise ValueError(error)
                for change in changes_since(state["conditions"], self.conditions):
                    self.progress.say(change)
                self.engine.load_state_dict(state["engine"])
                self.seconds = state["seconds"]
                self.bad_steps = int(self.engine.guard.count)
            except (LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
                if gpu_failure(error):
                    raise
                raise DataError(
                    f"the checkpoints in {self.folder.path} do not match this version of tamatch, "
                    "or the code of your own net or method. Resume with the version and code that "
                    "wrote them, or restart the run."
                ) from error
        before = {} if state is None else {"bytes": state.get("metrics_length", 0)}  # version 1
        self.folder.cut_metrics((state or {}).get("metrics", before))

    def begin(self) -> None:
        """What comes before the first step of this process."""
        self.began = time.perf_counter()
        self.memory = estimate(self.engine, self.held_out.values())
        self.folder.update(status="running", memory=self.memory.facts(), metrics=self.folder.mark())
        if self.watch is not None and self.engine.steps_done == 0:
            self.watch.begin()

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """What is there while the steps are done: the bar, the device's stream, the trackers and
        callbacks that the run is to have.
        """
        run, names, path = self.run, self.facts.classes, self.folder.path.resolve()
        begun = self.folder.read()["times"]["started"]
        key = sha256(f"{path} {begun}".encode()).hexdigest()[:16]
        made: dict[str, Callable[[], Tracker]] = {
            "tensorboard": lambda: TensorBoard(path / "events", names, self.engine.steps_done + 1),
            "wandb": lambda: WandB(path.name, names, key, run.flat()),
            "mlflow": lambda: MLflow(path.name, names, key, run.flat()),
        }
        bar = self.progress.bar(self.engine.steps_done, self.steps)
        with bar, self.engine.running(), closing(self.trackers):
            for name in (name for name in made if getattr(run, name)):
                self.trackers.begin(name, made[name])
            if self.callbacks is not None:
                self.trackers.open["a callback"] = self.callbacks
            yield

    @property
    def steps_left(self) -> int:
        """Steps that are still to be done."""
        return self.steps - self.engine.steps_done

    def after_step(self, asked: int) -> None:
        """Log, test and save where it is time to, and save if a signal asks for a stop."""
        run, done, last = self.run, self.engine.steps_done, self.steps_left == 0
        if done % run.log_every == 0 or last:
            self.log()
        if done % run.test_every == 0 or last:
            self.test()
        if done % run.save_every == 0 or last or asked:
            self.save()

    def advance(self) -> None:
        """One step; if memory does not suffice, once more with recomputed activations."""
        try:
            return self.engine.advance()
        except OutOfMemory:
            pass  # leave `except` first: the error keeps the tensors of the step alive
        free_memory()
        self.reduce_memory()
        self.advance()

    def reduce_memory(self) -> None:
        """Use less memory after a step that ran out of it, or raise the error."""
        how = self.engine.reduce_memory()
        if how is None:
            raise self.too_large()
        self.progress.say(
            f"{self.engine.device} ran out of memory in step {self.engine.steps_done:,}. From here "
            f"on, {how}. This takes more time and gives the same results."
        )

    def too_large(self, runs: int = 1) -> OutOfMemory:
        """The error for this many runs like this one at the same time."""
        batch, unlabelled = self.run.batch, self.run.unlabelled
        return too_large(self.engine, batch, unlabelled, self.held_out.values(), runs)

    def elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self.began

    def log(self) -> None:
        """Read the meters: the one moment when the host waits for the device."""
        self.check_numbers()
        step, values = self.engine.steps_done, self.engine.meter.read()
        if not values:  # every step since the last line was a bad one
            return
        unclear = [name for name, value in values.items() if not np.isfinite(value).all()]
        if unclear:
            raise NumericError(f"loss part {unclear[0]} is not finite near step {step:,}.")
        lr = float(self.engine.optimizer.param_groups[-1]["lr"])
        row = {"step": step, "kind": "train", **values, "lr": lr}
        self.write(row)
        self.progress.trained(row)
        if self.watch is not None:
            self.watch.logged(row)

    def write(self, row: dict[str, Any]) -> None:
        """A line of metrics.jsonl, and for all who follow the run."""
        self.folder.append({**row, "time": {"seconds": round(self.elapsed(), 3)}})
        self.trackers.add(row)

    def check_numbers(self) -> None:
        """Report non-finite steps, which were undone on the device; stop after too many."""
        before, self.bad_steps = self.bad_steps, int(self.engine.guard.count)
        if self.bad_steps > ALLOWED_BAD_STEPS:
            raise NumericError(
                f"{ALLOWED_BAD_STEPS + 1} steps gave non-finite values; the last one was "
                f"{explain(self.engine)}. The newest checkpoint was saved before it. If the images "
                "and any code of your own are correct, the learning rate is probably too high: "
                "restart with a smaller --lr."
            )
        if self.bad_steps > before:
            self.progress.say(
                f"Shortly before step {self.engine.steps_done:,}, values were not finite; such "
                f"steps are skipped ({self.bad_steps} of {ALLOWED_BAD_STEPS})."
            )

    def test(self) -> None:
        """Errors on the held-out parts: shown, never used for a choice."""
        for kind, part in self.held_out.items():
            scores = part.score(self.predicted(part))
            row = {"step": self.engine.steps_done, "kind": kind}
            row |= {"error": scores.error, "per_class": scores.per_class}
            self.write(row)
            self.progress.tested(row)

    def save(self) -> None:
        """Write a checkpoint; refuse weights that are not finite."""
        self.check_numbers()
        if found := overflow(self.engine.method, self.engine.optimizer):
            raise NumericError(
                f"{found} is not finite after step {self.engine.steps_done:,}. The newest "
                "checkpoint was saved before it. The learning rate is too high: restart with a "
                "smaller --lr."
            )
        mark = self.folder.mark()
        state = {
            "engine": self.engine.state_dict(),
            "conditions": self.conditions,
            "metrics": mark,
            "seconds": self.elapsed(),
        }
        checkpoint.save(self.folder.checkpoints, self.engine.steps_done, state)
        self.folder.update(step=self.engine.steps_done, metrics=mark)

    def predicted(self, part: Subset) -> Tensor:
        """Class probabilities of held-out images."""
        return self.engine.probabilities(part.images)

    def predict_pool(self, pool: Pool, temperature: float) -> tuple[PoolPredictions, Any]:
        found = predict_pool(self.engine, pool, temperature)
        return found, summary(found, pool, told_by(self.engine.method))

    def finish(self) -> dict[str, Any]:
        """Write the model, its assessment and the result; of a folder that goes, the result."""
        if self.kept:
            self.write_answers()
        return self.conclude(result_of(self.run, self.folder.rows(), self.elapsed()))

    def likeness(self) -> Likeness | None:
        """What the model knows of images of no class: nothing, where it is not solved."""
        return None

    def write_answers(self) -> PoolPredictions | None:
        """The model and what it says about all images; of these, the pool."""
        raw = {k: self.predicted(part).cpu().numpy() for k, part in self.held_out.items()}
        model = Model(self.facts, self.engine.method.final, self.likeness())
        found = write_answers(self.folder, model, raw, self.held_out, self.pool, self.predict_pool)
        if self.watch is not None and found is not None:
            self.watch.end([r for r in self.folder.rows() if r["kind"] == "train"], found)
        return found

    def conclude(self, result: dict[str, Any]) -> dict[str, Any]:
        """Write the result; the run is finished."""
        write_result(self.folder, result, self.steps)
        self.progress.ended()
        return result


class Watch:
    """Applies the rules of `symptoms`: shows each warning once and keeps run.json up to date."""

    def __init__(
        self, run: Run, engine: Engine, pool: Pool, folder: RunFolder, progress: Progress
    ) -> None:
        self.run, self.engine, self.pool = run, engine, pool
        self.folder, self.progress = folder, progress
        self.names = pool.data.classes
        labels = pool.data.labels[engine.source.indices[LABELLED]]
        self.shares = shares(labels, len(self.names))
        self.from_step = symptoms.patience(run.steps, run.warmup)
        wanted = max(WINDOW, PER_CLASS * len(self.names))  # images, of some number of last lines
        lines = math.ceil(wanted / (run.log_every * run.unlabelled))
        self.rows: deque[Mapping[str, Any]] = deque(maxlen=lines)
        self.present = {w["name"]: Symptom(**w) for w in folder.read().get("warnings", [])}

    def begin(self) -> None:
        """Before the first step: do the sets look alike?"""
        sets = self.engine.source.indices[LABELLED], self.pool.indices
        some = (np.sort(indices[evenly_spread(len(indices))]) for indices in sets)
        found = two_sample_test(*(self.pool.data.images[places] for places in some))
        self.tell(symptoms.distribution_shift(found))

    def logged(self, row: Mapping[str, Any]) -> None:
        """After each line of the log; the rules look at one window of lines after the other."""
        self.rows.append(row)
        if row["step"] < self.from_step or len(self.rows) < (self.rows.maxlen or 0):
            return
        self.tell(self.check_used(row["step"]))
        if (predicted := self.recent("predicted_by_class")) is not None:
            images = len(self.rows) * self.run.log_every * self.run.unlabelled
            self.tell(self.check_predicted(predicted, images))
        self.rows.clear()

    def recent(self, name: str) -> Floats | None:
        """The mean of a logged value over the last lines; None where the method has none."""
        found = [row[name] for row in self.rows if name in row]
        return np.mean(found, axis=0) if found else None

    def end(self, rows: Sequence[Mapping[str, Any]], found: PoolPredictions) -> None:
        """The warnings that still apply at the end, by the last lines of the log."""
        self.rows.extend(rows)  # also those from before a resume
        counts = np.bincount(found.predicted, minlength=len(self.names)) / max(1, len(self.pool))
        final = (
            self.present.get(symptoms.SHIFT),
            self.check_used(self.engine.steps_done),
            self.check_predicted(counts, len(self.pool)),
        )
        for symptom in final:
            self.tell(symptom)
        self.present = {s.name: s for s in final if s is not None}
        self.write()

    def check_predicted(self, predicted: Floats, images: float) -> Symptom | None:
        seen = predicted.tolist()
        return symptoms.never_predicted(seen, images, self.shares, self.names, self.run.method)

    def check_used(self, step: int) -> Symptom | None:
        used = self.recent("used")
        if used is None or not len(self.pool):  # every image has its label
            return None
        return symptoms.unused(float(used), step, self.reached)

    def reached(self) -> Reached:
        """How confident a part of the pool is now."""
        p = pseudo_label_probabilities(self.engine, self.pool.images[:SAMPLE])
        sure = p.amax(-1).cpu().numpy()
        lower = next((t for t in reversed(TAUS) if (sure >= t).mean() >= ENOUGH), None)
        return Reached(float(sure.max()), threshold(self.engine.method), lower)

    def tell(self, symptom: Symptom | None) -> None:
        if symptom is not None and symptom.name not in self.present:
            self.present[symptom.name] = symptom
            self.progress.say(str(symptom))
            self.write()

    def write(self) -> None:
        self.folder.update(warnings=[asdict(symptom) for symptom in self.present.values()])
