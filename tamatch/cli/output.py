"""What the terminal shows when runs have ended."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from ..machine import launch

if TYPE_CHECKING:
    from ..runs.group import SeedGroup


def show_run(path: Path) -> int:
    """The small table at the end of a run, its verdict, and where the report is."""
    if not launch.leads():
        return 0
    from rich.console import Console

    from ..report import summary_table, verdict_on

    show_table(summary_table(path))
    console = Console()
    if told := verdict_on(path):
        console.print(f"Did the unlabelled images help? {told}", markup=False, soft_wrap=True)
    console.print(f"Report: {path / 'report.html'}", highlight=False, soft_wrap=True)
    return 0


def show_group(group: SeedGroup) -> int:
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
