"""What came of runs that were trained together: each by itself, and their mean and spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from ..errors import NumericError
from .jobs import Job
from .result import Finished

FIGURES = {"error": "test error", "baseline_error": "supervised", "utilization": "unlabelled used"}


@dataclass(frozen=True)
class SeedGroup:
    """Runs that were trained together, and what became of each."""

    jobs: list[Job]
    ends: list[Finished | NumericError]

    def finished(self) -> list[Finished]:
        """All of them; the first error, if there is one."""
        for job, end in zip(self.jobs, self.ends, strict=True):
            if isinstance(end, NumericError):
                raise NumericError(f"{job.progress.name}: {end}")
        return [end for end in self.ends if isinstance(end, Finished)]

    def summary(self) -> dict[str, Any]:
        """The figures of each run, and mean and standard deviation over those that ended."""
        runs = [figures(job, end) for job, end in zip(self.jobs, self.ends, strict=True)]
        over = {name: spread([run[name] for run in runs if name in run]) for name in FIGURES}
        return {"seeds": [run["seed"] for run in runs], "runs": runs, **over, "ddof": 1}

    def table(self) -> list[tuple[str, ...]]:
        """The same for people, header first; what no run has is left out."""
        found = self.summary()
        names = [name for name in FIGURES if found[name] is not None]
        scale = {name: 100.0 if name == "utilization" else 1.0 for name in names}  # to percent
        rows = [("", *(FIGURES[name] for name in names))]
        for job, run in zip(self.jobs, found["runs"], strict=True):
            cells = (as_percent(run.get(name), scale[name]) for name in names)
            rows.append((job.progress.name, *(("failed",) if "failed" in run else cells)))
        over = (as_percent(**found[name], scale=scale[name]) for name in names)
        return [*rows, ("mean ± std (n − 1)", *over)]


def figures(job: Job, end: Finished | NumericError) -> dict[str, Any]:
    row: dict[str, Any] = {"seed": job.run.seed, "run": job.folder.path.name}
    if isinstance(end, NumericError):
        return {**row, "failed": str(end)}
    row |= {"error": end.result["error_last"], "utilization": end.result["utilization"]}
    if end.baseline is not None:
        row["baseline_error"] = end.baseline["error_last"]
    return row


def spread(values: Sequence[float | None]) -> dict[str, float | None] | None:
    """Mean and standard deviation (n − 1) of what was measured."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": mean(known), "std": stdev(known) if len(known) > 1 else None}


def as_percent(mean: float | None, scale: float, std: float | None = None) -> str:
    """A percentage, with its spread where there is one."""
    if mean is None:
        return "–"
    return f"{scale * mean:.2f}{'' if std is None else f' ± {scale * std:.2f}'} %"
