"""The figures of one run that headline, comparison and terminal share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .folder import RunFiles
from .values import number, numbers, text, whole

ORACLE = "oracle: chosen on the test set"
HELD_OUT = ("test", "validation")
MEDIAN_NEEDS = 40  # tests in a run: with fewer, the last 20 reach into its first half


@dataclass(frozen=True)
class Figures:
    """Errors and accuracies are percentages, utilization is a share of one; None: not measured."""

    method: str
    data: str
    seed: str
    steps: int | None
    finished: bool
    measured_on: str  # "test", "validation", or "" where neither part exists
    images: int | None  # how many images the error was measured on
    error_last: float | None
    error_median: float | None  # of the last 20 tests; None also where the run has too few
    error_best: float | None
    best_step: int | None
    classes: tuple[str, ...]
    per_class: tuple[float, ...]
    utilization: float | None
    seconds: float | None
    held_out: bool = True  # False: there is no labelled image to measure an error on
    labelled_pool: bool = False  # the unlabelled images were the labelled ones over again

    @property
    def accuracy(self) -> float | None:
        """100 minus the last error."""
        return None if self.error_last is None else 100 - self.error_last

    @property
    def balanced_accuracy(self) -> float | None:
        """Mean of the per-class accuracies."""
        known = [value for value in self.per_class if math.isfinite(value)]
        return sum(known) / len(known) if known else None

    @property
    def worst(self) -> tuple[str, float] | None:
        """Name and accuracy of the class with the lowest accuracy."""
        pairs = zip(self.classes, self.per_class, strict=False)
        known = [pair for pair in pairs if math.isfinite(pair[1])]
        return min(known, key=lambda pair: pair[1], default=None)


def facts_of(run: RunFiles) -> Figures:
    """Collect the figures: from result.json where it is there, else from the last logged rows."""
    measured_on = next((kind for kind in HELD_OUT if run.metrics.of(kind).rows), "")
    if number(run.result.get("error_last")) is not None:
        measured_on = "test"
    log = run.metrics.of(measured_on)
    error_last = number(run.result.get("error_last"))
    per_class = log.last_vector("per_class")
    if measured_on == "test":
        per_class = numbers(run.result.get("per_class_accuracy")) or per_class
    utilization = number(run.result.get("utilization"))
    if utilization is None:
        utilization = run.metrics.of("train").last_scalar("used")
    labelled_pool = _pool_is_labelled(run.data)
    settled = len(run.metrics.of("test").rows) >= MEDIAN_NEEDS
    method = text(run.config.get("method") or run.result.get("method"), "unknown method")
    return Figures(
        method=Path(method).name,  # of a method in a file, not where that lies
        data=text(
            run.data.get("name") or run.result.get("dataset") or run.config.get("data"),
            "unknown data",
        ),
        seed=text(run.config.get("seed", run.result.get("seed")), "unknown"),
        steps=whole(run.config.get("steps")) or whole(run.result.get("steps")),
        finished=run.finished,
        measured_on=measured_on,
        images=whole(run.data.get(measured_on)),
        error_last=log.last_scalar("error") if error_last is None else error_last,
        error_median=number(run.result.get("error_median20")) if settled else None,
        error_best=number(run.result.get("error_best")),
        best_step=whole(run.result.get("best_step")),
        classes=_class_names(run, per_class),
        per_class=tuple(per_class),
        utilization=None if labelled_pool else utilization,
        seconds=number(run.result.get("seconds")),
        held_out=bool(measured_on) or any(whole(run.data.get(k)) != 0 for k in HELD_OUT),
        labelled_pool=labelled_pool,
    )


def _pool_is_labelled(data: Mapping[str, object]) -> bool:
    pool, labelled = whole(data.get("unlabelled")), whole(data.get("labelled"))
    return bool(pool) and pool == labelled and data.get("labelled_in_pool") is True


def _class_names(run: RunFiles, per_class: list[float]) -> tuple[str, ...]:
    """Names from run.json; numbers stand in where it names too few."""
    listed = run.about.get("classes")
    names = [text(name, "?") for name in listed] if isinstance(listed, list) else []
    needed = max(len(per_class), len(run.metrics.of("train").last_vector("p_model")))
    return tuple(names + [str(index) for index in range(len(names), needed)])
