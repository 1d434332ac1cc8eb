"""This process: what torchrun tells it in environment variables, and the signals that stop it."""

from __future__ import annotations

import math
import os
import platform
import shlex
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def processes() -> int:
    """How many processes torchrun started, on all machines together; without it, 1."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def local_rank() -> int:
    """The number of this process on its machine, from 0, which is also that of its GPU."""
    return int(os.environ["LOCAL_RANK"]) if processes() > 1 else 0


def local_processes() -> int:
    """How many processes there are on this machine."""
    return int(os.environ["LOCAL_WORLD_SIZE"]) if processes() > 1 else 1


def leads() -> bool:
    """Whether this is process 0, which writes the files and the output."""
    return processes() == 1 or os.environ["RANK"] == "0"


def restarts() -> int:
    """How often torchrun has started the processes of this machine anew."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def name() -> str | None:
    """Names a torchrun command, the same before and after it has restarted its processes.

    By its `--rdzv-id`; where it has none, by the torchrun process of this machine.
    """
    given = os.environ.get("TORCHELASTIC_RUN_ID")
    own = f"process {os.getppid()} on {platform.node()}" if given == "none" else given
    return own and f"{own}: {shlex.join(sys.argv[1:])}"


class StopSignals:
    """While active, Ctrl-C, SIGTERM or SIGHUP sets `received`: the run saves and stops.

    A second signal ends the process at once.

    SIGHUP is the exception, as a terminal that is closed sends several. A signal that is ignored
    already, as under `nohup`, stays ignored.

    In one of several processes a second signal changes nothing: torchrun forwards signals that the
    processes may also get directly, and kills those that do not stop.

    When `time.monotonic()` reaches `end`, that counts as a first SIGTERM.
    """

    def __init__(self, end: float = math.inf) -> None:
        self.end, self._signal, self._active = end, 0, False
        self._before: dict[int, Any] = {}

    @property
    def time_is_up(self) -> bool:
        return time.monotonic() >= self.end

    @property
    def received(self) -> int:
        """The signal that asks to stop; 0 if there is none."""
        return self._signal or (signal.SIGTERM if self._active and self.time_is_up else 0)

    def __enter__(self) -> StopSignals:
        self._active = True
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) == signal.SIG_IGN:
                    continue
                self._before[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._signal and number != signal.SIGHUP and processes() == 1:
            os._exit(128 + number)
        self._signal = number

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._active = False
