"""labels.csv: each decision is written to disk before it is confirmed."""

from __future__ import annotations

import csv
import threading
from collections.abc import Iterator
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
from ..storage.spreadsheet import printable, table_bytes

SKIPPED = ""  # the label of an image that the person has skipped
COLUMNS = (NAME, LABEL)


class LabelFile:
    """File name and label of each decision, oldest first; a skipped image has an empty label.

    Each change replaces the whole file atomically and flushes it to the disk, so that a killed
    process loses nothing it had confirmed.
    """

    def __init__(self, path: Path, images: str | None = None) -> None:
        self.path = path
        self.images = images  # the folder that the names are relative to; None: the file's own
        self.labels: dict[str, str] = {}
        self.history: list[tuple[str, str | None]] = []  # file, and its label before
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
                f"--labels {self.path} has columns that would be lost: {', '.join(extra)[:100]}. "
                "Give another file, or a new one."
            )
        self.history = [(name, None) for name in self.labels]

    def set(self, file: str, label: str) -> None:
        """Label an image, correct its label, or skip it (`SKIPPED`)."""
        with self.guard:
            before = self.labels.get(file)
            later = {k: v for k, v in self.labels.items() if k != file} | {file: label}
            self._write(later)
            self.labels = later
            self.history.append((file, before))

    def undo(self) -> tuple[str, str | None] | None:
        """Take the last decision back; the image and its label before, None if there is none."""
        with self.guard:
            if not self.history:
                return None
            file, before = self.history[-1]
            later = dict(self.labels)
            if before is None:
                later.pop(file, None)
            else:
                later[file] = before
            self._write(later)
            self.labels = later
            return self.history.pop()

    def _write(self, labels: dict[str, str]) -> None:
        now = self.path.read_bytes() if self.path.exists() else None
        if now != self.written:
            raise DataError(
                f"{self.path} was changed by another program. Nothing was written to it; start "
                "`tamatch review` again."
            )
        content = table_bytes(COLUMNS, labels.items())
        write_bytes(self.path, content)
        self.written = content


@contextmanager
def opened(path: Path, data: DataSet, place: Path) -> Iterator[LabelFile]:
    """The labels of these data, for one process at a time; `place` is where the data lie."""
    refuse_table_inside(path, place)
    if path.is_dir():
        raise UsageError(f"--labels {path} is a folder; give a file.")
    with locked(path.with_name(f".{path.name}.lock"), str(path)):
        try:
            if path.exists():
                known_rows(data, path, place)
        except DataError as error:  # the labels of another project, in a file of the same name
            raise DataError(
                f"{error} If {path} is for other images, give a new file with --labels."
            ) from None
        yield LabelFile(path, folder_of(place))
