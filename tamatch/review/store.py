"""labels.csv: each decision is written to disk before it is confirmed."""

from __future__ import annotations

import csv
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..data import DataSet
from ..data.labels import (
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
from ..storage.spreadsheet import printable, read_rows, table_bytes

SKIPPED = ""  # the label of an image that the person has skipped
COLUMNS = (NAME, LABEL)
DRAWN = "drawn"  # a third column: "yes" for images that were asked for by lot


class LabelFile:
    """File name and label of each decision, oldest first; a skipped image has an empty label.

    Each change replaces the whole file atomically and flushes it to the disk, so that a killed
    process loses nothing it had confirmed.
    """

    def __init__(self, path: Path, images: str | None = None) -> None:
        self.path = path
        self.images = images  # the folder that the names are relative to; None: the file's own
        self.labels: dict[str, str] = {}
        self.drawn: set[str] = set()  # by lot, so that they are a fair sample
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
        extra = [c for c in columns if c.strip().lower() not in (*COLUMNS, DRAWN)]
        if extra:
            raise UsageError(
                f"{self.path} has columns that would be lost: {', '.join(extra)[:100]}. Remove "
                "them, or use another file."
            )
        if DRAWN in columns:
            marked = read_rows(self.path, NAME, DRAWN)
            self.drawn = {row[NAME] for row in marked if row[DRAWN]}
        self.history = [{name: None} for name in self.labels]

    def set(self, labels: Mapping[str, str]) -> None:
        """One decision: label images, correct their labels, or skip them (`SKIPPED`)."""
        with self.guard:
            before = {file: self.labels.get(file) for file in labels}
            later = {k: v for k, v in self.labels.items() if k not in labels} | dict(labels)
            self._write(later)
            self.labels = later
            self.history.append(before)

    def undo(self) -> dict[str, str | None] | None:
        """Take the last decision back; the labels before it, None if there is no decision."""
        with self.guard:
            if not self.history:
                return None
            before = self.history[-1]
            kept = {file: label for file, label in self.labels.items() if file not in before}
            later = kept | {file: label for file, label in before.items() if label is not None}
            self._write(later)
            self.labels = later
            return self.history.pop()

    def _write(self, labels: dict[str, str]) -> None:
        now = self.path.read_bytes() if self.path.exists() else None
        if now != self.written:
            raise DataError(
                f"{self.path} was changed by another program. Nothing was written to it; start "
                "again."
            )
        content = table_bytes(COLUMNS, labels.items())
        if self.drawn:
            rows = ((*row, "yes" if row[0] in self.drawn else "") for row in labels.items())
            content = table_bytes((*COLUMNS, DRAWN), rows)
        write_bytes(self.path, content)
        self.written = content


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
