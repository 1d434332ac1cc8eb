"""The run folder: what lies where, and the records that grow while a run goes on."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from ..errors import DataError, StorageError, UsageError, perhaps
from . import record
from .files import append_line, locked, own, read_json, writing
from .record import FIRST, OWN, RESTORE, RUN, Mark, files_in, remove, remove_empty
from .untrusted import parse_json

REPLACED = ".replaced"
ANYTHING = re.compile(".*", re.DOTALL)

LOCK = ".lock"
ADVICE = "Restore it; other settings need a new run, with a different --out"
NOT_OWN = re.compile(rf"(?!(?:{OWN.pattern})\Z|\{LOCK}\Z|\{REPLACED}/).*", re.DOTALL)
SEEDS = "seeds.json"  # in a folder that holds several runs


class Replaced:
    """The files of an older run, in a folder inside the run folder, until the new run has begun.

    run.json is moved last on the way in and first on the way out. So after a kill, a folder without
    it was not completely filled or emptied, and `recover` puts the files back.
    """

    def __init__(self, record: Path) -> None:
        self.record = record
        self.path = record.parent / REPLACED

    def fill(self, names: Sequence[str]) -> None:
        """Set these files of the run aside."""
        self.path.mkdir(exist_ok=True)
        self._move(self.record.parent, self.path, sorted(names, key=self.record.name.__eq__))

    def recover(self) -> None:
        """After a kill, put back what was not replaced completely."""
        complete = (self.path / self.record.name).exists()
        if self.path.exists() and not (complete and self.record.exists()):
            self.restore()

    def restore(self) -> None:
        """Put them back."""
        names = sorted(files_in(self.path, ANYTHING), key=self.record.name.__ne__)
        self._move(self.path, self.record.parent, names)
        remove_empty(self.record.parent, [f"{REPLACED}/any"])

    def forget(self) -> None:
        """Delete them."""
        if self.path.exists():
            remove(self.path, files_in(self.path, OWN))
            remove_empty(self.record.parent, [f"{REPLACED}/any"])

    @staticmethod
    def _move(source: Path, target: Path, names: Sequence[str]) -> None:
        for name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).rename(target / name)
        remove_empty(source, names)


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
    """The error for a missing run folder, with a similar name or the folder of a given file."""
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


def refuse_links(path: Path) -> None:
    """Refuse symbolic links among the folders of a run: writing would change another place."""
    for place, folders, _ in os.walk(path):
        for folder in (Path(place) / name for name in folders):
            first = folder.relative_to(path).parts[0]
            if folder.is_symlink() and first in (*record.FOLDERS, "export", REPLACED):
                raise UsageError(
                    f"{folder} is a symbolic link, and a run is not written through links. Replace "
                    "it with a copy of the folder that it leads to."
                )


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
        self._logged = hashlib.sha256()  # of metrics.jsonl, as far as this process knows it

    @property
    def baseline(self) -> "RunFolder":
        return RunFolder(self.path / "baseline")

    @property
    def first(self) -> "RunFolder":
        """The first answer that a tuned run starts from."""
        return RunFolder(self.path / "first")

    @property
    def lends_labels(self) -> bool:
        """Whether the validation images only judge a tuned net, and are learnt after that."""
        return "validation_per_class" in self.read().get("chosen", {})

    @property
    def to_resume(self) -> Path:
        """The folder to resume: a baseline or first answer goes on with the run it belongs to."""
        outer = RunFolder(self.path.parent)
        inside = self.path in (outer.baseline.path, outer.first.path)
        return outer.to_resume if inside and outer.record.exists() else self.path

    def holds_run(self) -> bool:
        """Whether run.json is there, readable, and the record of a run."""
        try:
            return is_record(read_json(self.record))
        except (OSError, ValueError):
            return False

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
        content = record.read_record(self.record)
        if not is_record(content):
            raise DataError(
                f"{self.record} is not the record of a tamatch run. Restore it, or train again."
            )
        return record.unsealed(content, RUN, self.record, ADVICE)

    def checked(self, name: str) -> Path:
        """A file that run.json lists, or an error if it is not as the run wrote it."""
        path = self.path / name
        wanted = self.read().get("files", {}).get(name)
        if wanted is not None and path.is_file() and record.file_digest(path) != wanted:
            raise DataError(f"{path} is not as the run wrote it. {RESTORE}.")
        return path

    def read_result(self) -> dict[str, Any]:
        """result.json, checked."""
        path = self.checked(self.result.name)
        found: dict[str, Any] = record.check(record.read_record(path), record.RESULT, path)
        return found

    @property
    def started_in(self) -> str:
        """The working directory of the run: where the paths among its settings begin."""
        return str(self.read().get("started_in", ""))

    def path_now(self, path: str) -> str:
        """Such a path seen from here, or else from where the run was started."""
        return path if os.path.exists(path) else os.path.join(self.started_in, path)

    def update(self, **changes: Any) -> None:
        """Change fields of run.json."""
        before = self.read() if self.record.exists() else {}
        record.write_sealed(self.record, {**before, **changes})

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the run for this process; the folder is made if it is not there."""
        make_folder(self.path)
        refuse_links(self.path)
        with locked(self.path / LOCK, str(self.path)):
            self.replaced.recover()
            for left_over in map(self.path.joinpath, record.left_over_in(self.path)):
                holder = next(p for p in left_over.parents if (p / LOCK).exists())
                if holder == self.path:  # a run inside has a process too
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
            if not (self.record.exists() and self.begun()):
                self._refuse_unwritten()
            elif not overwrite:
                raise UsageError(self._occupied())
            try:
                yield
            except StorageError:
                raise  # no mistake: `tamatch resume` goes on when there is room
            except BaseException as error:
                # else Ctrl-C while the images are read, or a fault
                if isinstance(error, UsageError | DataError) or self.replaced.path.exists():
                    self._withdraw()
                raise

    def _withdraw(self) -> None:
        """Undo what a run that has nothing to show has written."""
        if self.record.exists() and not self.begun():
            self.clear()
            self.replaced.recover()

    def make_room(self) -> None:
        """Empty the folder for a new run; an old one stays aside until that one has begun.

        What no run has written stays where it is.
        """
        if self.record.exists() and self.begun():
            self.replaced.forget()  # of a run that was killed before it could do so
            self.replaced.fill(files_in(self.path, OWN))
            return
        self._refuse_unwritten()
        self.clear()

    def _refuse_unwritten(self) -> None:
        """Refuse files that a new run would replace but the run there has not written."""
        written = files_in(self.path, OWN)
        if later := [name for name in written if not FIRST.fullmatch(name)]:
            raise UsageError(
                f"--out {self.path} contains {later[0]}, which the run there has not written. "
                "Choose a different --out."
            )

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
        saved = self.checkpoints.exists() and any(self.checkpoints.iterdir())
        return logged or saved or self.first.result.exists()

    def finished(self) -> bool:
        return self.record.exists() and self.read().get("status") == "finished"

    def contents(self) -> list[Path]:
        """The content of the folder, without traces of a process killed at its start."""
        traces = (LOCK, REPLACED, f".{self.record.name}.*.tmp")
        there = self.path.iterdir() if self.path.is_dir() else ()
        return [p for p in there if not any(p.match(trace) for trace in traces)]

    def not_of_the_run(self) -> list[str]:
        """A sentence on files that no run has written, if there are some."""
        strange = files_in(self.path, NOT_OWN)
        more = f" and {len(strange) - 1} more" if len(strange) > 1 else ""
        return [f"{self.path} contains {strange[0]}{more}, not of a run: kept."] if strange else []

    def clear(self) -> None:
        """Delete a run that has not begun, its record last: until then it is seen to be a run."""
        names = files_in(self.path, FIRST)
        remove(self.path, sorted(names, key=self.record.name.__eq__))

    def _occupied(self) -> str:
        found = self.read()
        if found.get("status") == "finished":
            if found["config"].get("baseline") == "supervised" and not self.baseline.finished():
                return (
                    f"{self.path} contains a run whose baseline is unfinished: `tamatch resume "
                    f"{self.path}` continues it, --overwrite deletes it."
                )
            return (
                f"{self.path} already contains a finished run. Choose a different --out, or use "
                "--overwrite to delete it."
            )
        return (
            f"{self.path} contains an unfinished run (step {found.get('step', 0):,} of "
            f"{found['config'].get('steps', 0):,}): `tamatch resume {self.path}` continues it, "
            "--overwrite deletes it."
        )

    def append(self, row: dict[str, Any]) -> None:
        """One line of metrics.jsonl."""
        line = json.dumps(row, allow_nan=False)
        append_line(self.metrics, line)
        self._logged.update(line.encode() + b"\n")
        self._forget_replaced()

    def mark(self) -> Mark:
        """How far metrics.jsonl is written, safely on the disk: what a checkpoint remembers."""
        with writing(self.metrics), own(self.metrics).open("ab") as file:
            os.fsync(file.fileno())
            return {"bytes": file.tell(), "sha256": self._logged.hexdigest()}

    def cut_metrics(self, mark: Mark) -> None:
        """Forget the lines written after a checkpoint; they are about to be written again.

        Those before it must be as they were written; one of version 1 knows their length alone.
        """
        length = mark.get("bytes", 0)
        with writing(self.metrics), own(self.metrics).open("a+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            self._logged = hashlib.sha256(file.read(length))
            found = self._logged.hexdigest()
            if size >= length and found == mark.get("sha256", found):
                file.truncate(length)
                return
        short = "shorter than its checkpoint says: lines are missing"
        raise DataError(
            f"{self.metrics} is {short if size < length else 'not as the run wrote it'}. Restore "
            "the file, or restart the run."
        )

    def rows(self) -> list[dict[str, Any]]:
        """All lines of metrics.jsonl, each as it was written."""
        mark = self.read().get("metrics") if self.record.exists() else None
        if mark and not (self.metrics.is_file() and record.matches(self.metrics, mark)):
            raise DataError(f"{self.metrics} is not as the run wrote it. {RESTORE}.")
        rows = []
        lines = self.metrics.read_bytes().split(b"\n")[:-1] if self.metrics.is_file() else []
        for count, line in enumerate(lines, 1):
            try:
                row = parse_json(line)
            except ValueError:
                row = None
            held_out = isinstance(row, dict) and row.get("kind") in ("test", "validation")
            kind = record.TEST_ROW if held_out else record.ROW
            rows.append(record.check(row, kind, Path(f"{self.metrics}, line {count},")))
        return rows
