"""result.json: the figures of a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from ..settings.config import Run

Rows = Sequence[dict[str, Any]]  # lines of metrics.jsonl


def result_of(run: Run, rows: Rows, seconds: float) -> dict[str, Any]:
    """What the log says of the whole run."""
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
