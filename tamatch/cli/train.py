"""The commands that settings belong to: check, train, resume, from-usb."""

from __future__ import annotations

import json
import os
import shlex
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError
from ..methods import is_user_code
from ..rules.pace import parse_time
from ..settings.config import RUN_OPTIONS, dump
from ..settings.configure import ask, configure, filled_in
from ..settings.options import read_seeds
from ..settings.recipes import PROTOCOLS
from ..storage.seedfolder import SeedFolder
from .output import show_group, show_run
from .parser import Parser, add_json, add_look, add_net, add_option

if TYPE_CHECKING:
    from ..data import SplitPlan

SPLIT_OPTIONS = (
    "labels_per_class", "head_labelled", "head_unlabelled", "gamma", "gamma_unlabelled",
    "pool_shape", "validation_per_class", "fold", "labelled_in_pool", "seed",
)  # fmt: skip
COMMON_OPTIONS = (
    "data", "root", "labels", "flips", "from_", "method", "net", "labels_per_class", "steps",
    "seed", "lr", "batch", "unlabelled", "ema", "baseline", "device", "precision",
)  # fmt: skip

# what other programs call --out
OTHER_NAMES_OF_OUT = ("output", "output-dir", "out-dir", "outdir", "save-dir")


def add_check(sub: ArgumentParser) -> None:
    sub.add_argument("data", metavar="NAME|DIR", help="name of a data set, or a folder")
    sub.add_argument("--download", action="store_true", help="download a named data set first")
    add_look(sub, "of a net that looks for doubtful labels and nearly equal images, too")
    add_json(sub)
    for name in ("root", "labels", "size", *SPLIT_OPTIONS):
        add_option(sub, RUN_OPTIONS[name])


def run_check(arguments: Namespace) -> int:
    from ..data.archives import download
    from ..data.check import check
    from ..progress import counting

    given = {k: RUN_OPTIONS[k].parse(v) for k, v in vars(arguments).items() if k in RUN_OPTIONS}
    root, labels = (Path(given[k]) if given.get(k) else None for k in ("root", "labels"))
    if arguments.download:
        with counting("downloading") as progress:
            download(arguments.data, root, progress)
    plan = drawn_plan(arguments.data, given)
    with counting("reading images") as progress:
        found = check(arguments.data, root, plan, given.get("size"), progress, labels)
    if arguments.weights is not None:
        from ..runs.closer import look_closer

        closer = look_closer(arguments.data, labels, arguments.weights, arguments.device)
        found = replace(found, closer=closer)
    print(json.dumps(found.to_json(), indent=1) if arguments.json else "\n".join(found.lines()))
    if found.problems:
        raise DataError(found.problems[0])
    return 0


def drawn_plan(data: str, given: dict[str, Any]) -> SplitPlan | None:
    """The split that training draws with these options; None if nothing says how."""
    from ..settings.inputs import plan_of

    options = filled_in(given, PROTOCOLS.get(data, {}))
    return plan_of(options) if options.keys() & {*SPLIT_OPTIONS} else None


def add_from_usb(sub: ArgumentParser) -> None:
    sub.add_argument("path", metavar="CONFIG.yaml", type=Path, help="a configuration of USB")


def run_from_usb(arguments: Namespace) -> int:
    from ..settings.usb import translate

    found = translate(arguments.path)
    print(found.command)
    print("\n".join(f"# {remark}" for remark in found.remarks))
    return 0


def add_train(sub: ArgumentParser) -> None:
    sub.epilog = "A method's own options (--tau, …) are listed by `tamatch methods NAME`."
    sub.add_argument("--out", type=Path, metavar="RUN", help="run folder (default: runs/…)")
    sub.add_argument("--overwrite", action="store_true", help="delete an existing run in --out")
    sub.add_argument("--seeds", metavar="0,1,2", help="one run per seed, all in parallel")
    sub.add_argument(
        "--time", metavar="DURATION", help="finish within 90s, 20m or 1h30m: sets the steps"
    )
    sub.add_argument(
        "--config", type=Path, metavar="FILE",
        help="YAML file of options; the command line takes precedence",
    )  # fmt: skip
    sub.add_argument("--print-config", action="store_true", help="print all settings and stop")
    common = sub.add_argument_group("common")
    rare = sub.add_argument_group("more options")
    for name, option in RUN_OPTIONS.items():
        add_option(common if name in COMMON_OPTIONS else rare, option)


def run_train(arguments: Namespace) -> int:
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


def add_resume(sub: ArgumentParser) -> None:
    sub.add_argument(
        "paths", metavar="RUN", nargs="+", type=Path,
        help="run folder, or the --out of several seeds; several runs continue in parallel",
    )  # fmt: skip
    sub.add_argument("--method", metavar="FILE.py:CLASS", help="the method, if it is your own code")
    add_net(sub)


def run_resume(arguments: Namespace) -> int:
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
