"""labels.csv: each decision is written to disk before it is confirmed."""

from __future__ import annotations

import csv
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..data import DataSet
from ..data.labels import (
    DRAWN,
    DRAWN_CELL,
    LABEL,
    NAME,
    class_name,
    folder_of,
    known_rows,
    read_table,
    refuse_table_inside,
)
from ..errors import DataError, UsageError
from ..storage.files import locked, write_bytes
from ..storage.spreadsheet import printable, table_bytes

SKIPPED = ""  # the label of an image that the person has skipped
COLUMNS = (NAME, LABEL, DRAWN)


class LabelFile:
    """File name and label of each decision, oldest first; a skipped image has an empty label.

    A third column says whether the image was drawn at random: others are no fair sample. A change
    replaces the whole file atomically and flushes it, so that a confirmed label is never lost.
    """

    def __init__(self, path: Path, images: str | None = None) -> None:
        self.path = path
        self.images = images  # the folder that the names are relative to; None: the file's own
        self.labels: dict[str, str] = {}
        self.drawn: dict[str, bool] = {}  # of labelled images: whether they are a fair sample
        self.history: list[dict[str, str | None]] = []  # the labels before each decision
        self.written: bytes | None = None  # None: there is no file yet
        self.guard = threading.Lock()
        if path.exists():
            self.read()

    def read(self) -> None:
        """Read an existing file in order to continue it."""
        rows = read_table(self.path, self.images)
        self.labels = {printable(row.name): class_name(row.label) for row in rows}
        self.written = self.path.read_bytes()
        columns = next(csv.reader(self.written.decode("utf-8-sig").splitlines()), [])
        extra = [c for c in columns if c.strip().lower() not in COLUMNS]
        if extra:
            raise UsageError(
                f"{self.path} has columns that would be lost: {', '.join(extra)[:100]}. Remove "
                "them, or use another file."
            )
        self.drawn = {printable(row.name): row.drawn for row in rows if row.drawn is not None}
        self.history = [{name: None} for name in self.labels]

    def set(self, labels: Mapping[str, str], lots: Collection[str] = ()) -> None:
        """Label, correct or skip images at once; `lots` were asked for because drawn at random."""
        with self.guard:
            before = {file: self.labels.get(file) for file in labels}
            later = {k: v for k, v in self.labels.items() if k not in labels} | dict(labels)
            new = {file: file in lots for file in labels if file in lots or file not in self.labels}
            self._write(later, self.drawn | new)
            self.history.append(before)

    def undo(self) -> dict[str, str | None] | None:
        """Take the last decision back; the labels before it, None if there is no decision."""
        with self.guard:
            if not self.history:
                return None
            before = self.history[-1]
            kept = {file: label for file, label in self.labels.items() if file not in before}
            later = kept | {file: label for file, label in before.items() if label is not None}
            self._write(later, {k: v for k, v in self.drawn.items() if k in later})
            return self.history.pop()

    def _write(self, labels: dict[str, str], drawn: dict[str, bool]) -> None:
        now = self.path.read_bytes() if self.path.exists() else None
        if now != self.written:
            raise DataError(
                f"{self.path} was changed by another program. Nothing was written to it; start "
                "again."
            )
        rows = ((*row, DRAWN_CELL[drawn.get(row[0])]) for row in labels.items())
        content = table_bytes(COLUMNS, rows)
        write_bytes(self.path, content)
        self.written, self.labels, self.drawn = content, labels, drawn


def lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


@contextmanager
def opened(path: Path, data: DataSet, place: Path) -> Iterator[LabelFile]:
    """The labels of these data, for one process at a time; `place` is where the data lie."""
    refuse_table_inside(path, place)
    if path.is_dir():
        raise UsageError(f"--labels {path} is a folder; give a file.")
    with locked(lock_of(path), str(path)):
        try:
            if path.exists():
                known_rows(data, path, place)
        except DataError as error:  # the labels of another project, in a file of the same name
            raise DataError(
                f"{error} If {path} is for other images, give a new file with --labels."
            ) from None
        yield LabelFile(path, folder_of(place))
