"""A time budget for runs: when it is spent, the training under way is asked to stop."""

from __future__ import annotations

import math
import threading
import time

from ..machine.signals import ask_to_stop

TICK = 0.2  # seconds between two requests, while no training listens yet
LONGEST = threading.TIMEOUT_MAX  # centuries


class Budget:
    """While active, asks a training to save itself and stop once the time is up."""

    def __init__(self, minutes: float | None) -> None:
        self.end = math.inf if minutes is None else time.monotonic() + 60 * minutes
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._wait, daemon=True)

    @property
    def spent(self) -> bool:
        return time.monotonic() >= self.end

    def _wait(self) -> None:
        while not self._over.wait(min(max(self.end - time.monotonic(), TICK), LONGEST)):
            ask_to_stop()

    def __enter__(self) -> Budget:
        if self.end < math.inf:
            self._watch.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
