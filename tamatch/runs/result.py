"""What comes of a run: the figures of result.json, and what training returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ..settings.config import Run

Rows = Sequence[dict[str, Any]]  # lines of metrics.jsonl


def result_of(run: Run, rows: Rows, seconds: float) -> dict[str, Any]:
    """What the log says about the whole run."""
    tests = [row for row in rows if row["kind"] == "test"]
    trained = [row for row in rows if row["kind"] == "train"]
    return {
        "method": run.method,
        "dataset": run.data,
        "seed": run.seed,
        "steps": run.steps,
        **errors(tests),
        "per_class_accuracy": tests[-1]["per_class"] if tests else None,
        "utilization": trained[-1].get("used") if trained else None,
        "seconds": round(seconds, 3),
    }


def errors(tests: Rows) -> dict[str, Any]:
    """error_last, error_median20 and, chosen on the test set and so an oracle, error_best."""
    if not tests:
        return {"error_last": None, "error_median20": None, "error_best": None, "best_step": None}
    best = min(tests, key=lambda row: (row["error"], row["step"]))
    return {
        "error_last": tests[-1]["error"],
        "error_median20": median(row["error"] for row in tests[-20:]),
        "error_best": best["error"],
        "best_step": best["step"],
    }


@dataclass(frozen=True)
class Finished:
    """A finished run: its folder and its result."""

    path: Path
    result: dict[str, Any]
    baseline: dict[str, Any] | None = None  # the result of its supervised baseline

    @property
    def accuracy(self) -> float | None:
        """Test accuracy of the last step in percent; None without a test part."""
        return accuracy_of(self.result)

    @property
    def baseline_accuracy(self) -> float | None:
        """The same of the supervised baseline; None also where none was trained."""
        return None if self.baseline is None else accuracy_of(self.baseline)

    @property
    def per_class(self) -> list[float] | None:
        """The same for each class, in the order of the model's classes."""
        return self.result["per_class_accuracy"]  # type: ignore[no-any-return]

    @property
    def first_answer(self) -> dict[str, Any] | None:
        """Of a run whose net is not trained: the error by cross-validation, the learning curve and
        the estimated class shares of the pool; None for any other run.
        """
        return self.result.get("first_answer")

    @property
    def report_path(self) -> Path:
        """The page that explains the run."""
        return self.path / "report.html"


def accuracy_of(result: dict[str, Any]) -> float | None:
    error = result["error_last"]
    return None if error is None else round(100 - error, 6)
