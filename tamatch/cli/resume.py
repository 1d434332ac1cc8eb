"""`tamatch resume`: go on with a run, with several, or with all seeds of a folder."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..errors import UsageError
from ..methods import is_user_code
from ..settings.config import RUN_OPTIONS
from ..storage.seedfolder import SeedFolder
from .output import show_group, show_run
from .parser import Parser
from .shared import add_net


def add_arguments(sub: ArgumentParser) -> None:
    sub.add_argument(
        "paths", metavar="RUN", nargs="+", type=Path,
        help="run folder, or the --out of several seeds; several runs continue in parallel",
    )  # fmt: skip
    sub.add_argument("--method", metavar="FILE.py:CLASS", help="the method, if it is your own code")
    add_net(sub)


def run(arguments: Namespace) -> int:
    from ..runs.run import resume
    from ..runs.seeds import resume_group

    path, *more = arguments.paths
    if arguments.extra:
        raise setting_is_kept(arguments.extra, path, arguments.parser)
    if arguments.method is not None and not is_user_code(arguments.method):
        raise setting_is_kept(["--method", arguments.method], path, arguments.parser)
    if more or SeedFolder(path).exists():
        return show_group(resume_group(arguments.paths, method=arguments.method, net=arguments.net))
    return show_run(resume(path, method=arguments.method, net=arguments.net).path)


def setting_is_kept(words: list[str], path: Path, parser: Parser) -> UsageError:
    """A run keeps its settings; with others it is a new run, which may start from its weights."""
    if not any(option.flag == words[0].partition("=")[0] for option in RUN_OPTIONS.values()):
        return parser.not_an_option(words[0])
    command = shlex.join(["tamatch", "train", "--from", str(path), *words])
    return UsageError(
        f"{words[0]}: a resumed run keeps its settings. `{command}` starts a new run from its "
        "weights."
    )
