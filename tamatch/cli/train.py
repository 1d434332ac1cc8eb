"""`tamatch train`: settings of a run, of its method, and what becomes of it."""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..rules.pace import parse_time
from ..settings.config import RUN_OPTIONS
from ..settings.config_file import dump
from ..settings.configure import ask, configure
from ..settings.options import read_seeds
from ..settings.recipes import PROTOCOLS
from .output import show_group, show_run
from .parser import Parser
from .shared import add_option

COMMON_OPTIONS = (
    "data", "root", "labels", "flips", "from_", "method", "net", "labels_per_class", "steps",
    "seed", "lr", "batch", "unlabelled", "ema", "baseline", "device", "precision",
)  # fmt: skip

# what other programs call --out
OTHER_NAMES_OF_OUT = ("output", "output-dir", "out-dir", "outdir", "save-dir")


def add_arguments(sub: ArgumentParser) -> None:
    sub.epilog = "A method's own options (--tau, …) are listed by `tamatch methods NAME`."
    sub.add_argument("--out", type=Path, metavar="RUN", help="run folder (default: runs/…)")
    sub.add_argument("--overwrite", action="store_true", help="delete an existing run in --out")
    sub.add_argument("--seeds", metavar="0,1,2", help="one run per seed, all in parallel")
    sub.add_argument(
        "--time", metavar="DURATION", help="finish within 90s, 20m or 1h30m: sets the steps"
    )
    sub.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="YAML file of options; the command line takes precedence",
    )
    sub.add_argument("--print-config", action="store_true", help="print all settings and stop")
    common = sub.add_argument_group("common")
    rare = sub.add_argument_group("more options")
    for name, option in RUN_OPTIONS.items():
        add_option(common if name in COMMON_OPTIONS else rare, option)


def run(arguments: Namespace) -> int:
    given = given_options(arguments)
    asked = ask(given, arguments.config)
    known = asked.run  # complain before the long import
    if arguments.time is not None:
        parse_time(arguments.time)
    if arguments.seeds is not None:
        read_seeds(arguments.seeds)
    if arguments.print_config:
        if arguments.time is not None or known.data not in PROTOCOLS:
            from ..runs.decide import decide

            known = decide(asked, arguments.time).run
        print(dump(known), end="")
        return 0
    where = {name: getattr(arguments, name) for name in ("out", "overwrite", "config", "time")}
    if arguments.seeds is not None:
        from ..runs.seeds import train_group

        return show_group(train_group(arguments.seeds, given, **where))
    from ..runs.run import train

    return show_run(train(**where, **given).path)


def given_options(arguments: Namespace) -> dict[str, Any]:
    """What the user set: declared options, and the rest as the method's own."""
    given = {k: v for k, v in vars(arguments).items() if k in RUN_OPTIONS}
    table = given.get("labels", "")
    if table.isdecimal() and not os.path.exists(table):
        raise UsageError(
            f"--labels takes a CSV file of labels, got {table}. Perhaps you meant "
            f"--labels-per-class {table}."
        )
    words = iter(arguments.extra)
    for word in words:
        if not word.startswith("--"):
            hint = hint_for(word, arguments.parser)
            raise UsageError(f"{word!r} is not an option; write options as --name value.{hint}")
        name, equals, value = word[2:].partition("=")
        if name in OTHER_NAMES_OF_OUT:
            raise UsageError(f"{word} is not an option. Perhaps you meant --out (run folder).")
        if not equals:
            value = next(words, "--")
            if value.startswith("--"):
                configure({**given, name.replace("-", "_"): None})  # says if it is unknown
                raise UsageError(f"--{name} needs a value.")
        given[name.replace("-", "_")] = value
    return given


def hint_for(word: str, parser: Parser) -> str:
    """What was perhaps meant by a word that is no option."""
    if word in PROTOCOLS or os.path.exists(word):
        return f" Perhaps you meant --data {shlex.quote(word)}."
    return parser.near(word) if word.startswith("-") else ""
