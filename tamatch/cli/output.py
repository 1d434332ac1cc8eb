"""What the terminal shows when runs have ended; and output that nobody reads."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StorageError
from ..machine import launch

if TYPE_CHECKING:
    from ..runs.seeds import SeedGroup


class Output(FileIO):
    """stdout or stderr: unless it is `needed`, what cannot be written is dropped."""

    needed = False

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            if not self.needed:
                return len(content)
            # what is held back must not fail once more when the process ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError):
                raise
            raise StorageError(f"the output cannot be written: {error.strerror}.") from None


@contextmanager
def safe_output() -> Iterator[Output | None]:
    """Make `Output`s of stdout and stderr where they are the process's own; yields the first."""
    before, made = (sys.stdout, sys.stderr), dict[str, Output]()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed; so that no file of a run gets its number
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        if stream is not getattr(sys, f"__{name}__") or not isinstance(stream, TextIOWrapper):
            continue
        stream.flush()
        made[name] = Output(stream.fileno(), "w", closefd=False)
        lines = stream.line_buffering or stream.write_through or name == "stderr"
        text = TextIOWrapper(
            BufferedWriter(made[name]), stream.encoding, stream.errors, line_buffering=lines
        )
        setattr(sys, name, text)
    try:
        yield made.get("stdout")
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, StorageError):
                stream.flush()
        sys.stdout, sys.stderr = before


def show_run(path: Path) -> int:
    """The small table at the end of a run, its verdict, and where the report is."""
    if not launch.leads():
        return 0
    from rich.console import Console

    from ..report import junk_on, outlook_on, summary_table, verdict_on

    show_table(summary_table(path))
    console = Console()
    if told := verdict_on(path):
        console.print(f"Did the unlabelled images help? {told}", markup=False, soft_wrap=True)
    for told in filter(None, (outlook_on(path), junk_on(path))):
        console.print(told, markup=False, soft_wrap=True)
    console.print(f"Report: {path / 'report.html'}", highlight=False, soft_wrap=True)
    return 0


def show_group(group: "SeedGroup") -> int:
    """The small table at the end of several runs; then the error of one that has no result."""
    from ..report import verdict_between

    show_table(group.table())
    paths = [job.folder.path for job in group.jobs]
    if len(paths) == 1:
        print(f"Report: {paths[0] / 'report.html'}")
    else:
        if told := verdict_between(paths):
            print(f"Which is better? {told}")
        command = f"tamatch report {shlex.join(map(str, paths))}"
        print(f"Reports: report.html in each run folder. `{command}` compares them.")
    group.finished()
    return 0


def show_table(rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    header, *others = rows
    table = Table(*map(escape, header))
    for row in others:
        table.add_row(*map(escape, row))
    Console().print(table)
