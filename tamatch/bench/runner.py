"""Makes the results that are missing, one run after the other in this process."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import configure
from ..errors import NumericError, UsageError
from ..folder import RunFolder
from ..lock import Locked, locked
from ..run import resume, stored_config, train
from ..signals import Stopped
from .budget import Budget
from .cells import Cell
from .record import record
from .store import Store

MACHINE = ("root", "device", "weights")  # names and files of the machine that makes a run


@dataclass(frozen=True)
class Workshop:
    """Where runs are made, and where their results go."""

    store: Store
    runs: Path  # folders of unfinished runs
    machine: dict[str, Any]  # the options of MACHINE that were given
    keep: bool = False  # the folders of finished runs too

    def fill(self, cells: Sequence[Cell], minutes: float | None = None) -> int:
        """Make the missing cells; those that others are making are left to them.

        Returns an exit code. A run that leaves the numbers it can go on from is reported and the
        next one begins; stopped by a signal or by the budget, the same call goes on later.
        """
        status = 0
        missing = [cell for cell in cells if not self.store.has(cell)]
        with Budget(minutes) as budget:
            for number, cell in enumerate(missing, 1):
                if budget.spent:
                    break
                say(f"[{number}/{len(missing)}] {cell.name}")
                try:
                    self.make(cell)
                except Locked as error:
                    say(str(error))
                except NumericError as error:
                    say(f"{cell.name}: {error}")
                    status = error.exit_code
                except Stopped as stopped:
                    if not budget.spent:
                        raise self.to_be_continued(cell, stopped) from None
        if budget.spent:
            left = sum(not self.store.has(cell) for cell in cells)
            say(f"The time is up: {left} of {len(cells)} runs are left. The same command goes on.")
        return status

    def make(self, cell: Cell) -> None:
        """Bring one run to its end, from wherever it is, and store its result."""
        lock = self.runs / f"{cell.name}.lock"
        with locked(lock, cell.name):
            if self.store.has(cell):  # since we looked
                return
            folder = RunFolder(self.runs / cell.name)
            self.train(cell, folder)
            self.store.write(cell, record(cell, folder))
            if not self.keep:
                shutil.rmtree(folder.path)

    def train(self, cell: Cell, folder: RunFolder) -> None:
        options = {**cell.options, **self.machine}
        if not folder.record.exists():
            train(out=folder.path, **options)
            return
        begun, wanted = (
            {k: v for k, v in dataclasses.asdict(run).items() if k not in MACHINE}
            for run in (stored_config(folder), configure(options))
        )
        other = [name for name in wanted if begun[name] != wanted[name]]
        if other:
            raise UsageError(
                f"{folder.path} was begun with other settings ({', '.join(other)}). "
                "Delete it to start that run again."
            )
        resume(folder.path)

    def to_be_continued(self, cell: Cell, stopped: Stopped) -> Stopped:
        return Stopped(
            stopped.exit_code - 128,
            f"stopped in {cell.name}; all is saved, the same command goes on.",
        )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
