"""The memory that a container or a job of a cluster may take: Linux's control groups set it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")  # where they are mounted
OWN = Path("/proc/self/cgroup")  # those of this process


def memory_limit() -> float:
    """Bytes; infinite if there is no limit. The system ends a process that takes more."""
    return min(_limits(), default=math.inf)


def _limits() -> Iterator[float]:
    """Of the own group and those around it, in both versions of the interface."""
    try:
        lines = OWN.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            yield from _upwards(GROUPS, group, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _upwards(GROUPS / "memory", group, "memory.limit_in_bytes")


def _upwards(top: Path, group: str, file: str) -> Iterator[float]:
    """From a group up to `top`, which in a container is all that there is to see of its group."""
    place = top / group.lstrip("/")
    for folder in (place, *place.parents):
        if not folder.is_relative_to(top):
            return
        try:
            text = (folder / file).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():  # not "max"
            yield int(text)
