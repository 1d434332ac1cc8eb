"""What a terminal shows during a run: a progress bar, or plain lines where there is no terminal."""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column

from .judge.differences import kl
from .storage.files import append_line

PLAIN_SECONDS = 5.0  # at least this long between two plain lines
PLAIN_COUNT = 20.0  # the same of a count, which most often ends before


class Screen:
    """The terminal. Runs that train at the same time share one, and one display on it."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.quiet = quiet
        self.live = self.console.is_terminal and not os.environ.get("CI") and not quiet
        self.bar: Bar | None = None  # with a line for each run

    def say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def shown(self) -> Iterator[Bar | None]:
        """The display, which others may have opened before; None where nobody watches."""
        if not self.live or self.bar is not None:
            yield self.bar
            return
        columns = (
            BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(compact=True),
            TextColumn("{task.description}", table_column=Column()),  # it may take two lines
        )  # fmt: skip
        with Bar(*columns, console=self.console) as self.bar:
            try:
                yield self.bar
            finally:
                self.bar = None


class Progress:
    """Receives the rows of metrics.jsonl and shows the newest; everything said goes to the log.

    One of several runs has a `name`, which precedes what it says on the screen.
    """

    def __init__(
        self,
        log: Path | None = None,
        *,
        quiet: bool = False,
        screen: Screen | None = None,
        name: str = "",
    ) -> None:
        self.log, self.name = log, name
        self.screen = screen or Screen(quiet=quiet)
        self.row: dict[str, Any] = {}
        self.errors: dict[str, float] = {}
        self._bar: Bar | None = None
        self._last_line = -math.inf

    def say(self, text: str) -> None:
        """A line that stays on the screen."""
        if self.log is not None and self.log.parent.is_dir():
            append_line(self.log, text)
        self.screen.say(f"{self.name}: {text}" if self.name else text)

    @contextmanager
    def bar(self, done: int, steps: int) -> Iterator[None]:
        self.steps, self._first, self._began = steps, done, time.perf_counter()
        self.row, self.errors = {}, {}  # of this run: a baseline may have gone before
        with self.screen.shown() as self._bar:
            if self._bar is not None:
                self._task = self._bar.add_task(self.name, total=steps, completed=done)
            yield
        self._bar = None

    def ended(self) -> None:
        """Where there is no bar, the last line; a bar stays as it is."""
        if self._bar is None and self.row:
            self._line(self.row["step"])

    def trained(self, row: dict[str, Any]) -> None:
        self.row = row
        self._show(row["step"])

    def tested(self, row: dict[str, Any]) -> None:
        self.errors[row["kind"]] = row["error"]
        self._show(row["step"])

    def _show(self, step: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=step, description=self._text(step))
            return
        if time.perf_counter() - self._last_line >= PLAIN_SECONDS and step < self.steps:
            self._line(step)

    def _line(self, step: int) -> None:
        self._last_line = time.perf_counter()
        if not self.screen.quiet:
            self.say(f"step {step:,}/{self.steps:,} · {self._text(step)}")

    def _text(self, step: int) -> str:
        rate = (step - self._first) / max(1e-9, time.perf_counter() - self._began)
        parts = [f"{rate:.3g} steps/s"]
        if self._bar is not None and self.name:
            parts = [self.name, *parts]
        if self._bar is None and rate > 0:
            left = int((self.steps - step) / rate)
            parts.append(f"ETA {timedelta(seconds=left)}")
        parts += describe(self.row)
        parts += [f"{kind} error {error:.1f} %" for kind, error in self.errors.items()]
        return " · ".join(parts)


def describe(row: dict[str, Any]) -> list[str]:
    """The parts of a training row that a person wants to see."""
    parts: list[str] = []
    if "sup" in row:
        unsup = f"+{row['unsup']:.3f}" if "unsup" in row else ""
        parts.append(f"loss {row['sup']:.3f}{unsup}")
    if "used" in row:
        parts.append(f"unlabelled used {100 * row['used']:.0f} %")
    if "p_model" in row and "p_target" in row:
        parts.append(f"KL(p_model‖target) {kl(row['p_model'], row['p_target']):.3f}")
    return parts


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Work that counts up: call it with (done, total), and 0 for a total that is not known.

    A bar; where there is none, a line now and then.
    """
    screen = Screen()
    if not screen.live:
        told = time.perf_counter()

        def tell(done: int, total: int) -> None:
            nonlocal told
            if time.perf_counter() - told >= PLAIN_COUNT:
                told = time.perf_counter()
                of = f" of {total:,}" if total else ""
                screen.say(f"{what}: {done:,}{of}")

        yield tell
        return
    columns = (*Bar.get_default_columns(), MofNCompleteColumn())
    with Bar(*columns, console=screen.console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
