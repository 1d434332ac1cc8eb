"""The curves of a run as arrays, as a table, or as a data frame: what metrics.jsonl holds."""

from __future__ import annotations  # the reference page shows them as they are written

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import UsageError, unknown_name
from .files import path_of
from .folder import RunFolder
from .spreadsheet import neutralise

KINDS = ("train", "validation", "test")


@dataclass(frozen=True)
class History:
    """The log of a run. Lines of training and of tests are apart: they have other columns."""

    rows: list[dict[str, Any]] = field(repr=False)  # as they were written, without the times
    classes: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = {kind: sum(row["kind"] == kind for row in self.rows) for kind in KINDS}
        return ", ".join(f"{count:,} {kind} rows" for kind, count in counts.items() if count)

    @property
    def train(self) -> dict[str, npt.NDArray[Any]]:
        """Losses and statistics by name: (n,), or (n, C) for those that have a value per class."""
        return self.columns("train")

    @property
    def validation(self) -> dict[str, npt.NDArray[Any]]:
        """Tests on the validation images, by name."""
        return self.columns("validation")

    @property
    def test(self) -> dict[str, npt.NDArray[Any]]:
        """Tests on the test images, by name: `step`, `error`, `per_class`."""
        return self.columns("test")

    def columns(self, kind: str) -> dict[str, npt.NDArray[Any]]:
        """The lines of one kind as arrays; what a line does not have is NaN."""
        if kind not in KINDS:
            raise unknown_name("rows", kind, KINDS)
        rows = [row for row in self.rows if row["kind"] == kind]
        names = dict.fromkeys(name for row in rows for name in row if name != "kind")
        return {name: column([row.get(name) for row in rows]) for name in names}

    def table(self, kind: str) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """The same as columns of single numbers: a value per class is a column `NAME/CLASS`."""
        for name, values in self.columns(kind).items():
            if values.ndim == 1:
                yield name, values
            else:
                width = values.shape[1]
                of = self.classes if len(self.classes) == width else map(str, range(width))
                yield from ((f"{name}/{c}", values[:, i]) for i, c in enumerate(of))

    def csv(self, kind: str = "train") -> str:
        """The same as the text of a CSV file; cells without a value are empty."""
        found, text = dict(self.table(kind)), io.StringIO()
        if not found:
            raise UsageError(f"the run has no {kind} rows.")
        table = csv.writer(text, lineterminator="\n")
        table.writerow(map(neutralise, found))
        lines = zip(*(values.tolist() for values in found.values()), strict=True)
        table.writerows(["" if value != value else value for value in line] for line in lines)
        return text.getvalue()

    def frame(self, kind: str = "train") -> Any:
        """The same as a pandas DataFrame with the steps as its index."""
        try:
            import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            raise UsageError("frame() needs pandas: `pip install pandas`.") from None
        found = dict(self.table(kind))
        index = pandas.Index(found.pop("step", np.empty(0, np.int64)), name="step")
        return pandas.DataFrame(found, index)


def column(values: list[Any]) -> npt.NDArray[Any]:
    """One array of a log's values, with NaN where there is none."""
    width = next((len(v) for v in values if isinstance(v, list)), None)
    empty: Any = np.nan if width is None else [np.nan] * width
    known = [empty if v is None else v for v in values]
    if width is None:
        return np.array(known)
    return np.array([[np.nan if one is None else one for one in row] for row in known])


def history(path: str | Path) -> History:
    """The curves of a run, from its folder."""
    folder = RunFolder(path_of(path, "history takes a run folder"))
    record = folder.read()
    rows = [{k: v for k, v in row.items() if k != "time"} for row in folder.rows()]
    return History(rows, tuple(record.get("classes", ())))
