"""One review: the run, what its model says about the pool, and the labels so far."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..report.charts import error_charts, error_lines
from ..report.facts import Figures, facts_of
from ..report.folder import read_folder
from ..report.html import environment
from ..report.words import percent, share
from .pictures import Pictures
from .store import SKIPPED, LabelFile
from .survey import Survey


@dataclass(frozen=True)
class Session:
    """What the page shows and what it may do. Images and classes are numbers here."""

    run: Path
    data: str  # as `--data` names it
    classes: tuple[str, ...]
    given: tuple[int, ...]  # labelled images of each class before
    files: tuple[str, ...]  # of the survey's images
    survey: Survey
    pictures: Pictures
    store: LabelFile
    net: str | None = None  # as `--net` names it, where it is code of the user's own

    def page(self) -> str:
        """The HTML, with the headline and the curves of the run."""
        folder = read_folder(self.run)
        facts = facts_of(folder)
        baseline = None if folder.baseline is None else facts_of(folder.baseline)
        template = environment("tamatch.review", "page").get_template("index.html.j2")
        return template.render(
            run=self.run.name,
            headline=headline(facts, baseline),
            charts=error_charts(error_lines(folder, facts, baseline), facts.measured_on),
            has_report=(self.run / "report.html").is_file(),
            command=self.next_command(),
            labels=str(self.store.path),
            pool=len(self.files),
        )

    def next_command(self) -> str:
        words = ["tamatch", "train", "--data", self.data, "--labels", short(self.store.path)]
        own = ["--net", self.net] if self.net else []
        return shlex.join([*words, "--from", str(self.run), *own])

    def state(self) -> dict[str, Any]:
        """All that the page needs to know, for its script."""
        p = self.survey.probabilities
        three = np.argsort(-p, axis=1, kind="stable")[:, :3]
        shown = np.take_along_axis(p, three, axis=1)
        return {
            "classes": self.classes,
            "given": self.given,
            "files": self.files,
            "guesses": three.tolist(),
            "shares": np.round(shown, 4).tolist(),
            "labels": self.labels(),
            "undoable": len(self.store.history),
        }

    def labels(self) -> dict[int, int]:
        """The class of every image that was decided on; -1 for one that was passed over."""
        numbers = {name: c for c, name in enumerate(self.classes)}
        known = self.store.labels
        return {
            i: numbers.get(known[file], -1) for i, file in enumerate(self.files) if file in known
        }

    def decide(self, image: int, label: int) -> dict[str, Any]:
        """Write a label down; -1 passes over. Positions must be checked before."""
        self.store.set(self.files[image], self.classes[label] if label >= 0 else SKIPPED)
        return {"image": image, "label": label, "undoable": len(self.store.history)}

    def undo(self) -> dict[str, Any]:
        """Take back the last decision; image is null where there is none, -1 if not of the pool."""
        undone = self.store.undo()
        if undone is None:
            return {"image": None, "label": None, "undoable": 0}
        file, before = undone
        position = {name: i for i, name in enumerate(self.files)}.get(file, -1)
        label = None if before is None else -1
        if before:
            label = self.classes.index(before)
        return {"image": position, "label": label, "undoable": len(self.store.history)}


def headline(run: Figures, baseline: Figures | None) -> list[tuple[str, str]]:
    """What a person wants to know of the run before labelling, the first two in the title."""
    if run.error_last is None:
        return [("error", "not measured")]
    facts = [(f"{run.measured_on} error", percent(run.error_last))]
    if baseline is not None and baseline.error_last is not None:
        facts.append(("without the unlabelled images", percent(baseline.error_last)))
    if run.worst is not None:
        name, accuracy = run.worst
        facts.append((f"accuracy of the worst class, {name}", percent(accuracy)))
    if run.utilization is not None:
        facts.append(("unlabelled images used", share(run.utilization)))
    return facts


def short(path: Path) -> str:
    """A path as the person would type it from here."""
    here = os.path.relpath(path)
    return str(path) if here.startswith(os.pardir) else here
