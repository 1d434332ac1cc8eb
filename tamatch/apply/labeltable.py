"""The table that `tamatch label` writes: its lines, and what an earlier one says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..data import DATASETS, DataSet
from ..data.layout import table_of
from ..errors import DataError
from ..settings.config import Run
from ..storage.folder import RunFolder
from ..storage.spreadsheet import read_rows

COLUMNS = ("file_name", "label", "confidence", "second", "accepted")
GIVEN = "given"  # in the last column: by a person


def line(
    data: DataSet, i: int, p: np.ndarray, best: int, how: str, *, named: bool = True
) -> tuple[str, ...]:
    """One line of the table; the second guess is the most probable class but the first."""
    others = np.delete(np.arange(len(p)), best)
    second = data.classes[others[p[others].argmax()]] if len(others) else ""
    return data.files[i], data.classes[best] if named else "", f"{p[best]:.6f}", second, how


def is_label_table(path: Path) -> bool:
    """Whether a file has the columns of this table, and no others."""
    with path.open("rb") as file:
        return file.readline(100).strip() == ",".join(COLUMNS).encode()


def tables_of(run: Run) -> list[Path]:
    """Where labels may have been written down since the run."""
    own = None if run.data in DATASETS else table_of(run.data)
    return [table for table in (own, run.labels and Path(run.labels)) if table]


def by_model(tables: Iterable[Path]) -> set[str]:
    """Files whose label an earlier `label` wrote into such a table: no person gave them."""
    found = set()
    for table in tables:
        try:
            rows = [*read_rows(table, "file_name", "accepted")]
        except DataError:  # not a table of ours
            continue
        found |= {row["file_name"] for row in rows if row["accepted"] != GIVEN}
    return found


def accepted(folder: RunFolder) -> dict[str, str]:
    """Was an image accepted as a pseudo-label at least once in training? yes or no, by its file.

    Empty for methods without such a rule, and where the run's own table is gone.
    """
    table = folder.checked("predictions/pool.csv")
    try:
        rows = read_rows(table, "image", "accepted")
        times = {row["image"]: row["accepted"] for row in rows}
    except DataError:
        return {}
    return {image: "no" if n == "0" else "yes" for image, n in times.items() if n}
