"""Runs that end as soon as they have reached an accuracy, or have taken too long."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import NumericError, Stopped
from ..machine.launch import StopSignals
from ..runs.end import Finished, result_of
from ..runs.start import Job
from ..storage.events import Callbacks
from ..storage.files import write_json
from .runner import Runner


class Finish(StopSignals):
    """Also stops a run that is `over`, which its tests and the time tell."""

    def __init__(self, end: float, target: float, limit: float, rows: Sequence[dict[str, Any]]):
        super().__init__(end)
        self.target, self.reached = target, False
        self.left, self.latest = limit - seconds_of(rows), math.inf
        for row in rows:
            self.tested(row)

    def __enter__(self) -> Finish:
        """The training begins."""
        super().__enter__()
        self.latest = time.monotonic() + self.left
        return self

    def tested(self, row: dict[str, Any]) -> None:
        self.reached |= row["kind"] == "test" and row["error"] <= 100 - self.target + 1e-6

    @property
    def over(self) -> bool:
        return self.reached or self.left <= 0 or time.monotonic() >= self.latest

    @property
    def received(self) -> int:
        return super().received or (signal.SIGTERM if self.over else 0)


@dataclass(frozen=True)
class Racer(Runner):
    """Makes runs up to a target accuracy in percent, each for `limit` seconds at most."""

    target: float = 100.0
    limit: float = math.inf

    def ends(self, jobs: Sequence[Job], stop: StopSignals) -> list[Finished | NumericError]:
        if not jobs:
            return []
        [job] = jobs
        finish = Finish(stop.end, self.target, self.limit, job.folder.rows())
        if not finish.over:  # as it is if the last process was killed before the result was written
            watched = replace(job, callbacks=Callbacks(None, finish.tested))
            try:
                return super().ends([watched], finish)
            except Stopped:
                if not finish.over:
                    raise
        rows = job.folder.rows()
        result = result_of(job.run, rows, seconds_of(rows))
        write_json(job.folder.result, result)
        return [Finished(job.folder.path, result)]


def seconds_of(rows: Sequence[dict[str, Any]]) -> float:
    """How long a run has been trained so far, tests included."""
    return float(rows[-1]["time"]["seconds"]) if rows else 0.0
