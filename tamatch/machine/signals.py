"""Ctrl-C, SIGTERM and SIGHUP: the first asks a run to save and stop, a second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, ClassVar

from . import launch

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """While active, these signals set `received`; a second one ends the process at once.

    Not so a second SIGHUP: a terminal that is closed sends several. One that is ignored, as
    `nohup` wants it, stays so.

    In one of several processes a second signal changes nothing: torchrun forwards signals that the
    processes may also get directly, and kills those that do not stop.
    """

    active: ClassVar[list[StopSignals]] = []

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        self.active.append(self)
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) == signal.SIG_IGN:
                    continue
                self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received and number != signal.SIGHUP and launch.processes() == 1:
            os._exit(128 + number)
        self.received = number

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self.active.remove(self)


def ask_to_stop() -> None:
    """What a first SIGTERM would do to the training under way; nothing if there is none."""
    for listener in [*StopSignals.active]:  # which ends in another thread
        listener.received = listener.received or signal.SIGTERM
