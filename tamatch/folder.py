"""The run folder: what lies where, and the records that grow while a run goes on."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from .errors import DataError, UsageError
from .files import read_json, write_json


class RunFolder:
    """Names of the files of a run, and the append-only metrics among them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = path / "run.json"
        self.result = path / "result.json"
        self.metrics = path / "metrics.jsonl"
        self.split = path / "split.csv"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.predictions = path / "predictions" / "test.csv"
        self.views = path / "batch.png"
        self.log = path / "log.txt"

    @property
    def baseline(self) -> RunFolder:
        return RunFolder(self.path / "baseline")

    def read(self) -> dict[str, Any]:
        """run.json, or an error that says what the folder is instead."""
        if not self.path.is_dir():
            raise UsageError(f"{self.path} is not a folder.")
        if not self.record.exists():
            raise UsageError(f"{self.path} holds no run (there is no run.json).")
        try:
            record = read_json(self.record)
        except ValueError:
            raise DataError(f"{self.record} is damaged: it is not valid JSON.") from None
        if not isinstance(record, dict) or "config" not in record:
            raise DataError(f"{self.record} is not the record of a tamatch run.")
        return record

    def update(self, **changes: Any) -> None:
        write_json(
            self.record, {**(read_json(self.record) if self.record.exists() else {}), **changes}
        )

    def claim(self, *, overwrite: bool) -> None:
        """Take an empty or absent folder for a new run; never lose an old one unasked."""
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"--out {self.path} is a file; give a folder.")
        if self.path.is_dir() and any(self.path.iterdir()):
            if not self.record.exists():
                raise UsageError(
                    f"--out {self.path} is not empty and holds no run. Give another --out."
                )
            if not overwrite:
                raise UsageError(self._occupied())
            shutil.rmtree(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {self.path} cannot be made: {error.strerror}.") from None

    def _occupied(self) -> str:
        record = self.read()
        if record.get("status") == "finished":
            return (
                f"{self.path} already holds a finished run. "
                "Use another --out, or --overwrite to delete it."
            )
        return (
            f"{self.path} holds an unfinished run (step {record.get('step', 0):,} of "
            f"{record['config']['steps']:,}): `tamatch resume {self.path}` goes on with it, "
            "--overwrite deletes it."
        )

    def append(self, row: dict[str, Any]) -> None:
        """One line of metrics.jsonl."""
        with self.metrics.open("a") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")

    def metrics_length(self) -> int:
        """Bytes of metrics.jsonl, safely on the disk: what a checkpoint remembers."""
        if not self.metrics.exists():
            return 0
        with self.metrics.open("rb") as file:
            os.fsync(file.fileno())
            return file.seek(0, os.SEEK_END)

    def cut_metrics(self, length: int) -> None:
        """Forget the lines written after a checkpoint; they are about to be written again."""
        self.metrics.touch()
        if self.metrics.stat().st_size < length:
            raise DataError(
                f"{self.metrics} is shorter than its checkpoint says: lines were lost. "
                "Start the run again, or restore the file."
            )
        os.truncate(self.metrics, length)

    def rows(self) -> list[dict[str, Any]]:
        """All complete lines of metrics.jsonl."""
        if not self.metrics.exists():
            return []
        lines = self.metrics.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines]
