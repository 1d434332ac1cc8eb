"""`tamatch resume`: go on with a run, with several, or with all seeds of a folder."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..storage.seedfolder import SeedFolder
from .endings import show_group, show_run
from .shared import add_net


def add_arguments(sub: ArgumentParser) -> None:
    sub.add_argument(
        "paths", metavar="RUN", nargs="+", type=Path,
        help="run folder, or the --out of several seeds; several runs go on abreast",
    )  # fmt: skip
    add_net(sub)


def run(arguments: Namespace) -> int:
    from ..runs.run import resume
    from ..runs.seeds import go_on

    path, *more = arguments.paths
    if more or SeedFolder(path).exists():
        return show_group(go_on(arguments.paths, net=arguments.net))
    return show_run(resume(path, net=arguments.net).path)
