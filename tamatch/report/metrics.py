"""Read metrics.jsonl as a stream: curves need a few hundred rows, a long run writes a million."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from ..storage.untrusted import parse_json
from .words import number, numbers, table, whole

KEEP = 250  # rows of one kind that are held; a curve is a few hundred pixels wide
_KIND = re.compile(rb'"kind"\s*:\s*"(\w+)"')

Item = TypeVar("Item")
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

    def scalar_names(self) -> list[str]:
        """Every scalar that occurs, in order of appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row.scalars))


@dataclass(frozen=True)
class Metrics:
    """All logs of a run by kind, and how many lines could not be read."""

    logs: dict[str, Log]
    unreadable: int = 0

    def of(self, kind: str) -> Log:
        """The log of one kind, empty if the run wrote none."""
        return self.logs.get(kind, Log())


class Thinned(Generic[Item]):
    """Holds fewer than `2 * keep` items: every `stride`-th seen so far, and always the last.

    When full it forgets every other item and doubles its stride, so the items stay evenly spaced
    and a stream of any length costs the same memory.
    """

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.stride = 1
        self.seen = 0
        self._kept: list[Item] = []
        self._last: list[Item] = []

    def add(self, item: Item) -> None:
        """Show one more item of the stream."""
        if self.seen % self.stride == 0:
            self._kept.append(item)
            if len(self._kept) == 2 * self.keep:
                del self._kept[1::2]
                self.stride *= 2
        self._last = [] if self.seen % self.stride == 0 else [item]
        self.seen += 1

    def items(self) -> list[Item]:
        """What is held, in the order of the stream."""
        return self._kept + self._last


def read_metrics(path: Path) -> Metrics:
    """Stream the file; only the lines that are held are parsed. A torn last line is passed over."""
    streams: dict[str, Thinned[bytes]] = {}
    unreadable = 0
    for line in _whole_lines(path):
        kind = _KIND.search(line)
        if kind is None:
            unreadable += 1
            continue
        streams.setdefault(kind[1].decode(), Thinned(KEEP)).add(line)
    logs = {}
    for name, stream in streams.items():
        rows = [row for line in stream.items() if (row := _parse(line)) is not None]
        unreadable += len(stream.items()) - len(rows)
        logs[name] = Log(_forward_only(rows), stream.seen, stream.stride)
    return Metrics(logs, unreadable)


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


def _forward_only(rows: list[LogRow]) -> list[LogRow]:
    """Where a run was taken up again from an earlier step, the later lines count."""
    kept: list[LogRow] = []
    for row in rows:
        while kept and kept[-1].step >= row.step:
            kept.pop()
        kept.append(row)
    return kept
