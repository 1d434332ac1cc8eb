"""The run folder: what lies where, and the records that grow while a run goes on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from ..errors import DataError, StorageError, UsageError, perhaps
from .files import append_line, read_json, write_json, writing
from .lock import locked
from .replaced import NAME as REPLACED
from .replaced import Replaced
from .untrusted import parse_json

LOCK = ".lock"
SEEDS = "seeds.json"  # in a folder that holds several runs


def make_folder(path: Path) -> None:
    """Make the folder that `--out` names, if it is not there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--out {path} cannot be created: {error.strerror}. Choose a different --out."
        ) from None


@contextmanager
def removing_empty_folders(path: Path) -> Iterator[None]:
    """Remove this folder and its parents afterwards, as far as they are new and still empty."""
    new = [*takewhile(lambda folder: not folder.exists(), (path, *path.parents))]
    try:
        yield
    finally:
        with suppress(OSError):
            for folder in new:
                folder.rmdir()


def runs_below(path: Path) -> list[Path]:
    return sorted(record.parent for record in path.glob("*/run.json"))


def no_folder(path: Path) -> UsageError:
    """For a run that is not there; it may hold the file, or have a similar name."""
    hint = perhaps(str(path), map(str, runs_below(path.parent)), most=1)
    if path.is_file() and (path.parent / "run.json").exists():
        hint = f" Perhaps you meant {path.parent}."
    return UsageError(f"{path} is not a folder.{hint or ' Give a run folder, such as runs/demo.'}")


def folder_advice(path: Path) -> str:
    """Advice on a folder that holds no run; it may be the one that holds all runs."""
    if inside := runs_below(path):
        return f"Give one of the runs in it, such as {inside[0]}."
    return "Give the --out folder of a run."


def is_record(content: Any) -> bool:
    return isinstance(content, dict) and "config" in content


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
        self.views = path / "batch.png"
        self.log = path / "log.txt"
        self.replaced = Replaced(self.record)

    @property
    def baseline(self) -> RunFolder:
        return RunFolder(self.path / "baseline")

    @property
    def to_resume(self) -> Path:
        """The folder to resume: a baseline goes on with the run that it belongs to."""
        outer = RunFolder(self.path.parent)
        return (
            outer.path if outer.baseline.path == self.path and outer.record.exists() else self.path
        )

    def holds_run(self) -> bool:
        """Whether run.json is there, readable, and the record of a run."""
        try:
            record = read_json(self.record)
        except (OSError, ValueError):
            return False
        return is_record(record)

    def check_one_run(self) -> None:
        """An error if this is no folder, or that of several runs."""
        if not self.path.is_dir():
            raise no_folder(self.path)
        if (self.path / SEEDS).exists():
            raise UsageError(
                f"{self.path} contains several runs, one per seed. Give one of them, such as "
                f"{(*runs_below(self.path), self.path / 's0')[0]}."
            )

    def read(self) -> dict[str, Any]:
        """run.json, or an error that says what the folder is instead."""
        self.check_one_run()
        if not self.record.exists():
            raise UsageError(
                f"{self.path} is not a run folder: it contains no run.json. "
                f"{folder_advice(self.path)}"
            )
        try:
            record = read_json(self.record)
        except ValueError:
            raise DataError(
                f"{self.record} is damaged: it is not valid JSON. Restore it, or train again."
            ) from None
        if not is_record(record):
            raise DataError(
                f"{self.record} is not the record of a tamatch run. Restore it, or train again."
            )
        found: dict[str, Any] = record
        return found

    @property
    def started_in(self) -> str:
        """The working directory of the run: where the paths among its settings begin."""
        return str(self.read().get("started_in", ""))

    def path_now(self, path: str) -> str:
        """Such a path seen from here, or else from where the run was started."""
        return path if os.path.exists(path) else os.path.join(self.started_in, path)

    def update(self, **changes: Any) -> None:
        write_json(
            self.record, {**(read_json(self.record) if self.record.exists() else {}), **changes}
        )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the run for this process; the folder is made if it is not there."""
        make_folder(self.path)
        with locked(self.path / LOCK, str(self.path)):
            self.replaced.recover()
            for left_over in self.path.rglob(".*.tmp"):  # of a process killed while writing
                holder = next(p for p in left_over.parents if (p / LOCK).exists())
                if holder == self.path and left_over.is_file():  # a run inside has a process too
                    left_over.unlink()
            yield
            self._forget_replaced()

    @contextmanager
    def taken(self, *, overwrite: bool) -> Iterator[None]:
        """Lock the folder for a new run; an old run there is an error unless `overwrite` is set.

        The old run is deleted when the new one has something to show. If a mistake of the user's
        ends the new one before its first step, nothing of it is left behind, and the old one is
        where it was.
        """
        if overwrite not in (True, False):  # "no" would be true, and the old run gone
            raise UsageError(f"overwrite takes True or False, got {overwrite!r}.")
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"--out {self.path} is a file; give a folder.")
        if self.contents() and not self.record.exists():
            raise UsageError(
                f"--out {self.path} is not empty and is not a run folder. Choose a different --out."
            )
        with removing_empty_folders(self.path), self.held():
            if self.record.exists() and not overwrite and self.begun():
                raise UsageError(self._occupied())
            with self._withdrawn_if_refused():
                yield

    @contextmanager
    def _withdrawn_if_refused(self) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise  # no mistake: `tamatch resume` goes on when there is room
        except (UsageError, DataError):
            self._withdraw()
            raise
        except BaseException:
            if self.replaced.path.exists():  # Ctrl-C while the images are read, or a fault
                self._withdraw()
            raise

    def _withdraw(self) -> None:
        """Undo what a run that has nothing to show has written."""
        if self.record.exists() and not self.begun():
            self.clear()
            self.replaced.recover()

    def make_room(self) -> None:
        """Empty the folder for a new run; an old one stays aside until that one has begun."""
        if not (self.record.exists() and self.begun()):
            self.clear()
            return
        self.replaced.forget()  # of a run that was killed before it could do so
        self.replaced.fill(self.contents())

    def _forget_replaced(self) -> None:
        if self.replaced.path.exists() and self.begun():
            self.replaced.forget()

    def begun(self) -> bool:
        """Whether there is anything to resume. If not, a run may be replaced without asking."""
        try:
            status = self.read().get("status")
        except DataError:  # nobody can tell any more, so nothing is deleted unasked
            return True
        if status != "running":
            return status != "new"
        logged = self.metrics.exists() and self.metrics.stat().st_size > 0
        return logged or (self.checkpoints.exists() and any(self.checkpoints.iterdir()))

    def finished(self) -> bool:
        return self.record.exists() and self.read().get("status") == "finished"

    def contents(self) -> list[Path]:
        """All that is in the folder but what a process killed at its very start leaves there."""
        traces = (LOCK, REPLACED, f".{self.record.name}.*.tmp")
        there = self.path.iterdir() if self.path.is_dir() else ()
        return [p for p in there if not any(p.match(trace) for trace in traces)]

    def clear(self) -> None:
        """Delete the run, its record last: stopped half-way, this is still seen to be a run."""
        for path in sorted(self.contents(), key=self.record.__eq__):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _occupied(self) -> str:
        record = self.read()
        if record.get("status") == "finished":
            if record["config"].get("baseline") == "supervised" and not self.baseline.finished():
                return (
                    f"{self.path} contains a run whose baseline is unfinished: `tamatch resume "
                    f"{self.path}` continues it, --overwrite deletes it."
                )
            return (
                f"{self.path} already contains a finished run. Choose a different --out, or use "
                "--overwrite to delete it."
            )
        return (
            f"{self.path} contains an unfinished run (step {record.get('step', 0):,} of "
            f"{record['config']['steps']:,}): `tamatch resume {self.path}` continues it, "
            "--overwrite deletes it."
        )

    def append(self, row: dict[str, Any]) -> None:
        """One line of metrics.jsonl."""
        append_line(self.metrics, json.dumps(row, allow_nan=False))
        self._forget_replaced()

    def metrics_length(self) -> int:
        """Bytes of metrics.jsonl, safely on the disk: what a checkpoint remembers."""
        if not self.metrics.exists():
            return 0
        with writing(self.metrics), self.metrics.open("rb") as file:
            os.fsync(file.fileno())
            return file.seek(0, os.SEEK_END)

    def cut_metrics(self, length: int) -> None:
        """Forget the lines written after a checkpoint; they are about to be written again."""
        with writing(self.metrics):
            self.metrics.touch()
        if self.metrics.stat().st_size < length:
            raise DataError(
                f"{self.metrics} is shorter than its checkpoint says: lines are missing. Restore "
                "the file, or restart the run."
            )
        with writing(self.metrics):
            os.truncate(self.metrics, length)

    def rows(self) -> list[dict[str, Any]]:
        """All complete lines of metrics.jsonl."""
        if not self.metrics.exists():
            return []
        lines = self.metrics.read_text(encoding="utf-8").split("\n")[:-1]
        return [parse_json(line) for line in lines]
