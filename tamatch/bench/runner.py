"""Makes the missing results in this process: one run after the other, or some in parallel."""

import dataclasses
import math
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from ..errors import DeviceError, NumericError, Stopped, StorageError, UsageError
from ..machine.gpu import gpu_failure
from ..machine.launch import StopSignals
from ..methods import is_user_code
from ..progress import Progress, Screen
from ..runs.decide import decide
from ..runs.end import Finished
from ..runs.jobs import SWITCHES, complete_all
from ..runs.record import begin
from ..runs.start import Job
from ..settings.config import Run
from ..settings.configure import ask, configure, stored_config
from ..settings.recipes import PROTOCOLS
from ..storage.files import Locked, locked
from ..storage.folder import RunFolder, removing_empty_folders
from .cells import MACHINE, Cell
from .results import Store, record, start


@dataclass(frozen=True)
class Runner:
    """Where runs are made, and where their results go."""

    store: Store
    runs: Path  # folders of unfinished runs
    machine: dict[str, Any]  # the options of MACHINE that were given
    keep: bool = False  # the folders of finished runs too
    abreast: int = 1  # runs at the same time

    def fill(self, cells: Sequence[Cell], minutes: float | None = None) -> int:
        """Make the missing cells but those that others are making; returns an exit code.

        A run with infinite or NaN values is reported. After a signal or the budget, the same call
        goes on.
        """
        end = math.inf if minutes is None else time.monotonic() + 60 * minutes
        status, begun, stop = 0, 0, StopSignals(end)
        missing = [cell for cell in cells if not self.store.has(cell)]
        for group in grouped(missing, self.abreast):
            if stop.time_is_up:
                break
            for cell in group:
                begun += 1
                say(f"[{begun}/{len(missing)}] {cell.name}")
            try:
                status = max(status, self.make(group, stop))
            except Stopped as stopped:
                if not stop.time_is_up:
                    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
                    told = f"stopped in {group[0].name}{more}; all is saved, the same command"
                    raise Stopped(stopped.signal, f"{told} continues.") from None
        if stop.time_is_up:
            left = sum(not self.store.has(cell) for cell in cells)
            say(
                f"The time is up: {left} of {len(cells)} runs are left. The same command continues."
            )
        return status

    def make(self, group: Sequence[Cell], stop: StopSignals) -> int:
        """Finish some runs, however far they have come, and store their results."""
        status = 0
        with ExitStack() as held:
            cells = [cell for cell in group if self.take(cell, held)]
            screen, several = Screen(), len(cells) > 1
            jobs = [self.job(cell, screen, held, named=several) for cell in cells]
            for cell, job, end in zip(cells, jobs, self.ends(jobs, stop), strict=True):
                if isinstance(end, NumericError):
                    say(f"{cell.name}: {end}")
                    status = end.exit_code
                    continue
                found = record(cell, job.folder)
                self.store.write(cell, dataclasses.replace(found, abreast=len(cells)))
                if not self.keep:
                    shutil.rmtree(job.folder.path)
        return status

    def take(self, cell: Cell, held: ExitStack) -> bool:
        """Lock a cell; False if another process makes it, or has made it meanwhile."""
        lock = self.runs / f"{cell.name}.lock"
        held.enter_context(removing_empty_folders(lock.parent))
        try:
            held.enter_context(locked(lock, cell.name))
        except Locked as error:
            say(str(error))
            return False
        return not self.store.has(cell)  # it may have come in since we looked

    def job(self, cell: Cell, screen: Screen, held: ExitStack, *, named: bool) -> Job:
        """A run that has begun, or begins now."""
        folder = RunFolder(self.runs / cell.name)
        given = {**cell.options, **self.machine}
        own = cell.setting.data not in PROTOCOLS  # much is chosen for these images and this machine
        if own and folder.record.exists():
            wanted = stored_config(folder, cell.method if is_user_code(cell.method) else None)
        else:
            wanted = decide(ask(given)).run if own else configure(given)
        if not folder.record.exists():
            held.enter_context(folder.taken(overwrite=False))
            begin(wanted, folder)
        else:
            held.enter_context(folder.held())
            wanted = begun_like(folder, wanted)
        name = cell.name if named else ""
        progress = Progress(folder.log, screen=screen, name=name)
        return Job(wanted, folder, progress, kept=self.keep)

    def ends(self, jobs: Sequence[Job], stop: StopSignals) -> list[Finished | NumericError]:
        if not jobs:
            return []
        try:
            return complete_all(jobs, stop)
        except NumericError as error:  # of a run that was alone
            return [error]
        except StorageError as error:
            raise StorageError(
                f"{error} When there is space again, the same command continues."
            ) from error
        except RuntimeError as error:
            if failure := gpu_failure(error):
                raise DeviceError(f"{failure} The same command continues.") from error
            raise


def grouped(cells: Sequence[Cell], size: int) -> Iterator[Sequence[Cell]]:
    """The cells that are made at the same time: seeds of one row first, then rows of one setting.

    Those that set torch's switches differently are kept apart; one at a time, they keep their
    order.
    """
    if size == 1:
        yield from ([cell] for cell in cells)
        return
    rows = [*dict.fromkeys((cell.setting, cell.row) for cell in cells)]
    kinds = [*dict.fromkeys(map(kind, cells))]
    ordered = sorted(cells, key=lambda c: (kinds.index(kind(c)), rows.index((c.setting, c.row))))
    for _, same in groupby(ordered, key=kind):
        listed = [*same]
        yield from (listed[i : i + size] for i in range(0, len(listed), size))


def kind(cell: Cell) -> tuple[Any, ...]:
    """What cells that are made at the same time have in common."""
    return cell.setting, *(cell.options.get(name) for name in SWITCHES)


def begun_like(folder: RunFolder, wanted: Run) -> Run:
    """The run in a folder; an error if its settings are not those of the one that is wanted."""
    own = is_user_code(wanted.method)
    begun = stored_config(folder, wanted.method if own else None)
    if own:  # the folder's name tells its code, which may be in another file now
        wanted = dataclasses.replace(wanted, method=begun.method)
    there, asked = (
        {k: v for k, v in dataclasses.asdict(run).items() if k not in MACHINE}
        for run in (begun, wanted)
    )
    one, two = start(begun.weights), start(wanted.weights)
    if one != two:
        raise UsageError(
            f"{folder.path} was started from {one}, but this command starts from {two}. Use a "
            "different --runs, or delete this folder to restart the run."
        )
    other = [name for name in asked if there[name] != asked[name]]
    if other:
        raise UsageError(
            f"{folder.path} was started with different settings ({', '.join(other)}). Delete it to "
            "restart the run."
        )
    return begun


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
