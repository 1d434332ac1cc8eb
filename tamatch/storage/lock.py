"""One process at a time: lock files that the system itself lets go of."""

from __future__ import annotations

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ..errors import UsageError
from .files import make_parent, own, writing


class Locked(UsageError):
    """Another running process holds the lock."""


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file of `what`, or raise `Locked` with the process that holds it.

    The system drops the lock when a process ends, however it ends: the file that a killed one
    leaves behind is no lock any longer.
    """
    with take(path, what) as file:
        with writing(path):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}\n")
            file.flush()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def take(path: Path, what: str) -> TextIO:
    """Open and lock the file that lies at `path`."""
    with writing(path):
        make_parent(path)
        while True:
            file = own(path).open("a+", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "another process"
                file.close()
                raise Locked(f"{what} is in use by {holder}. Wait until it has finished.") from None
            except FileNotFoundError:
                pass
            file.close()  # the last holder has just deleted it: another one may make it anew
