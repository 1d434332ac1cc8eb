"""Watches a run while it trains, and warns about what should worry its user."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..data import shares
from ..judge import symptoms
from ..judge.symptoms import Reached, Symptom, evenly_spread, two_sample_test
from ..judge.trust import TAUS, Floats
from ..progress import Progress
from ..pseudo.account import threshold
from ..settings.config import Run
from ..step.engine import Engine
from ..step.source import LABELLED, Pool
from ..storage.folder import RunFolder
from .end import PoolPredictions, pseudo_label_probabilities

WINDOW = 1000  # images that a rule looks at, at least
PER_CLASS = 30  # and at least this many per class
SAMPLE = 512  # images of the pool that are asked why nothing is accepted
ENOUGH = 0.1  # share of them that a lower threshold should accept


class Watch:
    """The rules of `symptoms`, each told once; run.json holds those that apply."""

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
        labelled, images = self.engine.source.indices[LABELLED], self.pool.data.images
        sets = (
            labelled[evenly_spread(len(labelled))],
            self.pool.indices[evenly_spread(len(self.pool))],
        )
        found = two_sample_test(*(images[np.sort(places)] for places in sets))
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
        """What still applies when all is done, by the last lines; early worries may have passed."""
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
