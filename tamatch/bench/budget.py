"""A time budget for runs: when it is spent, the training under way is asked to stop."""

from __future__ import annotations

import math
import signal
import time
from types import FrameType, TracebackType
from typing import Any

from ..signals import StopSignals

TICK = 0.2  # seconds between two tries, while no training listens yet


class Budget:
    """While active, sends SIGTERM to a training once the time is up; it then saves itself."""

    def __init__(self, minutes: float | None) -> None:
        self.end = math.inf if minutes is None else time.monotonic() + 60 * minutes
        self._before: Any = None

    @property
    def spent(self) -> bool:
        return time.monotonic() >= self.end

    def __enter__(self) -> Budget:
        if self.end < math.inf:
            self._before = signal.signal(signal.SIGALRM, self._ask)
            signal.setitimer(signal.ITIMER_REAL, max(self.end - time.monotonic(), TICK), TICK)
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        """Nobody listens while a run is being built: then try again at the next tick."""
        listener = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
        if isinstance(listener, StopSignals) and not listener.received:
            signal.raise_signal(signal.SIGTERM)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.end < math.inf:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)
