"""The run that a new one replaces: kept beside it until the new one has something to show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .record import OWN, files_in, remove, remove_empty

NAME = ".replaced"
ANYTHING = re.compile(".*", re.DOTALL)


class Replaced:
    """A folder inside the run folder. The record goes in last and comes out first.

    So a process killed in between leaves a state that shows how far it came: without a record, the
    folder was not yet filled or not yet emptied, and `recover` puts the rest back.
    """

    def __init__(self, record: Path) -> None:
        self.record = record
        self.path = record.parent / NAME

    def fill(self, names: Sequence[str]) -> None:
        """Set these files of the run aside."""
        self.path.mkdir(exist_ok=True)
        self._move(self.record.parent, self.path, sorted(names, key=self.record.name.__eq__))

    def recover(self) -> None:
        """After a kill: whatever was not replaced in the end is put back."""
        complete = (self.path / self.record.name).exists()
        if self.path.exists() and not (complete and self.record.exists()):
            self.restore()

    def restore(self) -> None:
        """Put them back."""
        names = sorted(files_in(self.path, ANYTHING), key=self.record.name.__ne__)
        self._move(self.path, self.record.parent, names)
        remove_empty(self.record.parent, [f"{NAME}/any"])

    def forget(self) -> None:
        """Delete them."""
        if self.path.exists():
            remove(self.path, files_in(self.path, OWN))
            remove_empty(self.record.parent, [f"{NAME}/any"])

    @staticmethod
    def _move(source: Path, target: Path, names: Sequence[str]) -> None:
        for name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).rename(target / name)
        remove_empty(source, names)
