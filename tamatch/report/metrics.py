"""Read metrics.jsonl as a stream: curves need a few hundred rows, a long run writes a million."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..storage.untrusted import parse_json
from .words import number, numbers, table, whole

KEEP = 250  # rows of one kind that are held; a curve is a few hundred pixels wide
_KIND = re.compile(rb'"kind"\s*:\s*"(\w+)"')

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class LogRow:
    """One log line: its step, its scalars, and its per-class vectors."""

    step: int
    scalars: dict[str, float]
    vectors: dict[str, list[float]]


@dataclass(frozen=True)
class Log:
    """The rows of one kind that were held, out of `total`."""

    rows: list[LogRow] = field(default_factory=list)
    total: int = 0
    stride: int = 1

    def curve(self, name: str, factor: float = 1.0) -> Points:
        """(step, factor * value) of a scalar; NaN where a row lacks it, so that the line breaks."""
        if not any(name in row.scalars for row in self.rows):
            return []
        return [(row.step, factor * row.scalars.get(name, math.nan)) for row in self.rows]

    def last_scalar(self, name: str) -> float | None:
        """The newest value of a scalar."""
        return next((row.scalars[name] for row in reversed(self.rows) if name in row.scalars), None)

    def last_vector(self, name: str) -> list[float]:
        """The newest value of a per-class vector, empty if it was never written."""
        return next((row.vectors[name] for row in reversed(self.rows) if name in row.vectors), [])


@dataclass(frozen=True)
class Metrics:
    """All logs of a run by kind, and how many lines could not be read."""

    logs: dict[str, Log]
    unreadable: int = 0

    def of(self, kind: str) -> Log:
        """The log of one kind, empty if the run wrote none."""
        return self.logs.get(kind, Log())


def read_metrics(path: Path) -> Metrics:
    """Read the file twice: count the lines of each kind, then parse every `stride`-th and the last.

    A torn last line is passed over.
    """
    totals = Counter(map(_kind, _whole_lines(path)))
    unreadable = totals.pop("", 0)
    logs = {kind: Log(total=total, stride=stride_for(total)) for kind, total in totals.items()}
    seen: Counter[str] = Counter()
    for line in _whole_lines(path):
        if (log := logs.get(kind := _kind(line))) is None:
            continue
        if seen[kind] % log.stride == 0 or seen[kind] == log.total - 1:
            row = _parse(line)
            unreadable += row is None
            # Where a run was taken up again from an earlier step, the later lines count.
            while row and log.rows and log.rows[-1].step >= row.step:
                log.rows.pop()
            log.rows.extend([row] if row else [])
        seen[kind] += 1
    return Metrics(logs, unreadable)


def stride_for(total: int) -> int:
    """The power of two that leaves fewer than `2 * KEEP` lines, and at least `KEEP` of many."""
    stride = 1
    while -(-total // stride) >= 2 * KEEP:
        stride *= 2
    return stride


def _kind(line: bytes) -> str:
    """The kind of a line, empty if it names none."""
    found = _KIND.search(line)
    return found[1].decode() if found else ""


def _whole_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            torn = not line.endswith(b"\n") and _parse(line) is None
            if not torn and not line.isspace():
                yield line


def _parse(line: bytes) -> LogRow | None:
    try:
        fields = table(parse_json(line))
    except (ValueError, RecursionError):
        return None
    step = whole(fields.pop("step", None))
    if step is None:
        return None
    scalars = {name: one for name, v in fields.items() if (one := number(v)) is not None}
    vectors = {name: many for name, v in fields.items() if (many := numbers(v))}
    return LogRow(step, scalars, vectors)
