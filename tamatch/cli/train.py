"""The commands that settings belong to: check, train, resume, from-usb, methods, nets."""

import json
import os
import shlex
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, UsageError
from ..methods import METHODS, entry, is_user_code
from ..nets import FAMILIES, NETS
from ..nets.pretrained import HUB, PRETRAINED
from ..rules.pace import parse_time
from ..settings.config import RUN_OPTIONS, dump, method_options
from ..settings.configure import ask, configure, filled_in
from ..settings.options import as_text, read_seeds
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


def drawn_plan(data: str, given: dict[str, Any]) -> "SplitPlan | None":
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
    if more or SeedFolder(path).record.exists():
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


def add_methods(sub: ArgumentParser) -> None:
    sub.add_argument("name", metavar="NAME", nargs="?", help="a method")
    add_json(sub)


def run_methods(arguments: Namespace) -> int:
    if arguments.name:
        return show_method(arguments.name, as_json=arguments.json)
    if arguments.json:
        rows = [{"name": k, "title": e.title, "summary": e.summary} for k, e in METHODS.items()]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    for name, row in METHODS.items():
        print(f"{name:24} {row.title:24} {row.summary}")
    return 0


def show_method(name: str, *, as_json: bool) -> int:
    row, options = entry(name), method_options(name)
    if as_json:
        own = {
            k: {"default": o.default, "fixed": k in row.options, "help": o.help}
            for k, o in options.items()
        }
        print(json.dumps({"name": name, "title": row.title, "options": own}, ensure_ascii=False))
        return 0
    print(f"{row.title}: {row.summary}\n")
    width = max((len(option.flag) for option in options.values()), default=0)
    for option in options.values():
        takes = " | ".join(option.choices) or (f"must {option.bounds}" if option.bounds else "")
        state = "fixed at" if option.name in row.options else "default"
        value = "required" if option.required else f"{state} {as_text(option.default)}"
        print(f"  {option.flag:{width}}  {option.help} ({value})" + (f"; {takes}" if takes else ""))
    return 0


add_nets = add_json


def run_nets(arguments: Namespace) -> int:
    rows = {**NETS, **{name: found for name, (_, found) in FAMILIES.items()}}
    if arguments.json:
        keys = ("summary", "size", "parameters")
        listed = [{"name": n, **{k: getattr(e, k) for k in keys}} for n, e in rows.items()]
        weights = [{"name": name, **asdict(row)} for name, row in PRETRAINED.items()]
        print(json.dumps({"nets": listed, "weights": weights}, indent=1, ensure_ascii=False))
        return 0
    print("Nets (--net NAME):")
    for name, row in rows.items():
        print(f"{name:40} {row.parameters:38} {row.summary}")
    print("\nPre-trained weights (--weights NAME), downloaded on first use:")
    for name, found in PRETRAINED.items():
        print(f"{name:16} {found.size:7} {found.licence:11} {found.summary:34} {found.repo}")
    print(f"{HUB}OWNER/REPO   any other on the hub, if it is of one of these nets")
    return 0
