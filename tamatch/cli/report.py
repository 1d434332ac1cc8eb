"""`tamatch report`: the page of a run, or one that compares several."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..errors import UsageError
from ..storage.seedfolder import runs_in


def add_arguments(sub: ArgumentParser) -> None:
    sub.add_argument("paths", metavar="RUN", nargs="+", type=Path, help="run folders")
    sub.add_argument(
        "--out", type=Path, metavar="FILE",
        help="page to write (default: RUN/report.html; for several runs comparison.html)",
    )  # fmt: skip


def run(arguments: Namespace) -> int:
    from ..report import write_comparison, write_report

    if arguments.out is not None and arguments.out.is_dir():
        raise UsageError(f"--out {arguments.out} is a folder; give a file.")
    paths = [run.path for path in arguments.paths for run in runs_in(path)]
    paths = [*{path.resolve(): path for path in paths}.values()]
    if len(paths) == 1:
        print(write_report(paths[0], arguments.out))
    else:
        print(write_comparison(paths, arguments.out or Path("comparison.html")))
    return 0
