"""A run from its first step to its last, inside its folder: log, test, save, stop, finish."""

from __future__ import annotations

import csv
import datetime
import io
import math
import time
from typing import Any

from . import checkpoint
from .config import Run
from .engine import Engine
from .errors import NumericError
from .exam import Exam, headline
from .files import write_bytes, write_json
from .folder import RunFolder
from .model import Model
from .progress import Progress
from .signals import Stopped, StopSignals


class Training:
    """Everything that happens between two steps."""

    def __init__(
        self,
        run: Run,
        engine: Engine,
        folder: RunFolder,
        exams: dict[str, Exam],
        model: Model,
        progress: Progress,
    ) -> None:
        self.run, self.engine, self.folder = run, engine, folder
        self.exams, self.model, self.progress = exams, model, progress
        self.steps = engine.pace.steps
        self.seconds = 0.0  # training time before this process

    def resume(self) -> None:
        """Go back to the newest sound checkpoint, or to the start if there is none."""
        state, messages = checkpoint.newest(self.folder.checkpoints)
        for message in messages:
            self.progress.say(message)
        if state is not None:
            self.engine.load_state_dict(state["engine"])
            self.seconds = state["seconds"]
        self.folder.cut_metrics(state["metrics_length"] if state else 0)

    def go(self) -> dict[str, Any]:
        """Train to the end and return the result; `Stopped` after a signal, with all saved."""
        run, engine = self.run, self.engine
        self.began = time.perf_counter()
        self.folder.update(status="running")
        bar = self.progress.bar(engine.done, self.steps)
        with StopSignals() as stop, bar, engine.running():
            while engine.done < self.steps:
                engine.advance()
                done = engine.done
                last = done == self.steps
                if done % run.log_every == 0 or last:
                    self.log()
                if done % run.test_every == 0 or last:
                    self.test()
                if done % run.save_every == 0 or last or stop.received:
                    self.save()
                if stop.received and not last:
                    self.stop(stop.received)
            return self.finish()

    def elapsed(self) -> float:
        return self.seconds + time.perf_counter() - self.began

    def log(self) -> None:
        """Read the meters: the one moment when the host waits for the device."""
        step, values = self.engine.done, self.engine.meter.read()
        if not math.isfinite(values["total"]):  # type: ignore[arg-type]
            raise NumericError(
                f"the loss is {values['total']} near step {step}. "
                "Likely the learning rate is too high: try a smaller --lr."
            )
        lr = float(self.engine.optimizer.param_groups[-1]["lr"])
        row = {"step": step, "kind": "train", **values, "lr": lr}
        self.folder.append({**row, "time": {"seconds": round(self.elapsed(), 3)}})
        self.progress.trained(row)

    def test(self) -> None:
        """Errors on the held-out parts: shown, never used for a choice."""
        for kind, exam in self.exams.items():
            marks = exam.mark(self.engine.probabilities(exam.images))
            row = {"step": self.engine.done, "kind": kind}
            row |= {"error": marks.error, "per_class": marks.per_class}
            self.folder.append({**row, "time": {"seconds": round(self.elapsed(), 3)}})
            self.progress.tested(row)

    def save(self) -> None:
        state = {
            "engine": self.engine.state_dict(),
            "metrics_length": self.folder.metrics_length(),
            "seconds": self.elapsed(),
        }
        checkpoint.save(self.folder.checkpoints, self.engine.done, state)
        self.folder.update(step=self.engine.done)

    def stop(self, number: int) -> None:
        self.folder.update(status="stopped")
        raise Stopped(
            number,
            f"stopped at step {self.engine.done:,} of {self.steps:,}; all is saved. "
            f"`tamatch resume {self.folder.path}` goes on from there.",
        )

    def finish(self) -> dict[str, Any]:
        """Write the model, the predictions and the result."""
        self.model.save(self.folder.model, self.engine.method.final)
        rows = self.folder.rows()
        tests = [row for row in rows if row["kind"] == "test"]
        trained = [row for row in rows if row["kind"] == "train"]
        if "test" in self.exams:
            self.write_predictions(self.exams["test"])
        result = {
            "method": self.run.method,
            "dataset": self.run.data,
            "seed": self.run.seed,
            "steps": self.steps,
            **headline(rows),
            "per_class_accuracy": tests[-1]["per_class"] if tests else None,
            "utilization": trained[-1].get("used") if trained else None,
            "seconds": round(self.elapsed(), 3),
        }
        write_json(self.folder.result, result)
        times = self.folder.read().get("times", {})
        finished = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.folder.update(
            status="finished", step=self.steps, times={**times, "finished": finished}
        )
        return result

    def write_predictions(self, exam: Exam) -> None:
        confidence, predicted = self.engine.probabilities(exam.images).max(-1)
        names = self.model.facts.classes
        text = io.StringIO()
        rows = csv.writer(text)
        rows.writerow(["image", "label", "predicted", "confidence"])
        triples = zip(exam.files, exam.labels.tolist(), predicted.tolist(), strict=True)
        for (file, label, guess), sure in zip(triples, confidence.tolist(), strict=True):
            rows.writerow([file, names[label], names[guess], f"{sure:.6f}"])
        write_bytes(self.folder.predictions, text.getvalue().encode())
