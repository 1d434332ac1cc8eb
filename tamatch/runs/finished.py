"""What training returns: the folder and the figures of a finished run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    def report_path(self) -> Path:
        """The page that explains the run."""
        return self.path / "report.html"


def accuracy_of(result: dict[str, Any]) -> float | None:
    error = result["error_last"]
    return None if error is None else round(100 - error, 6)
