"""A disk on which the n-th write goes wrong half-way: it is full, or the process is killed in it.

`python -m tests.faults.disk kill N WORDS…` is a `tamatch` process that kills itself so.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tamatch import cli

Fault = Callable[[], None]


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Disk:
    """Counts the writes of files that `Path.open` has opened; from `after` on they fail."""

    def __init__(self, fault: Fault, after: int) -> None:
        self.fault, self.after = fault, after
        self.writes: list[str] = []  # what was written to, in order
        self.open = Path.open

    def opened(self, path: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        file = self.open(path, mode, *given, **named)
        return file if mode in ("r", "rb") else Watched(file, path, self)

    @contextmanager
    def inserted(self) -> Iterator[Disk]:
        Path.open = lambda path, *given, **named: self.opened(path, *given, **named)  # type: ignore
        try:
            yield self
        finally:
            Path.open = self.open  # type: ignore[method-assign]


class Watched:
    """A file as its user sees it, but for what happens to its writes."""

    def __init__(self, file: Any, path: Path, disk: Disk) -> None:
        self.file, self.path, self.disk = file, path, disk

    def write(self, content: Any) -> int:
        self.disk.writes.append(self.path.name)
        if len(self.disk.writes) <= self.disk.after:
            return int(self.file.write(content))
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        self.disk.fault()
        raise AssertionError("a fault that does nothing")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


if __name__ == "__main__":
    with Disk(kill, int(sys.argv[2])).inserted():
        sys.exit(cli.main(sys.argv[3:]))
