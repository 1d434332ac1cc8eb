"""The run that a new one replaces: kept beside it until the new one has something to show."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

NAME = ".replaced"


class Replaced:
    """A folder inside the run folder. The record goes in last and comes out first.

    So a process killed in between leaves a state that shows how far it came: without a record, the
    folder was not yet filled or not yet emptied, and `recover` puts the rest back.
    """

    def __init__(self, record: Path) -> None:
        self.record = record
        self.path = record.parent / NAME

    def fill(self, contents: Sequence[Path]) -> None:
        self.path.mkdir()
        for path in sorted(contents, key=self.record.__eq__):
            path.rename(self.path / path.name)

    def restore(self) -> None:
        kept = self.path / self.record.name
        for path in sorted(self.path.iterdir(), key=kept.__ne__):
            path.rename(self.record.parent / path.name)
        self.path.rmdir()

    def recover(self) -> None:
        """After a kill: whatever was not replaced in the end is put back."""
        complete = (self.path / self.record.name).exists()
        if self.path.exists() and not (complete and self.record.exists()):
            self.restore()

    def forget(self) -> None:
        if self.path.exists():
            shutil.rmtree(self.path)
