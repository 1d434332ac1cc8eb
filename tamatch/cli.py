"""The command line: one thin function a command. Nothing here imports torch by itself."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from . import __version__, launch
from .bench import commands as bench
from .choose import parse_time
from .config import RUN_OPTIONS, configure, dump, method_options, without_rivals
from .errors import DataError, TamatchError, UsageError
from .methods import METHODS, entry
from .nets import FAMILIES, NETS
from .options import Option
from .recipes import PROTOCOLS
from .seedfolder import SeedFolder, read_seeds, runs_in

if TYPE_CHECKING:
    from .group import Group

COMMON = (
    "data", "root", "labels", "from_", "method", "net", "labels_per_class", "steps", "seed", "lr",
    "batch", "unlabelled", "ema", "baseline", "device", "precision",
)  # fmt: skip


SPLIT = (
    "labels_per_class", "head_labelled", "head_unlabelled", "gamma", "gamma_unlabelled",
    "validation_per_class", "labelled_in_pool", "seed",
)  # fmt: skip


WHAT = {  # that an option takes, where its type says too little
    "data": "NAME|DIR", "root": "DIR", "labels": "FILE", "weights": "FILE", "from_": "RUN",
    "method": "NAME", "net": "NAME", "fold": "K/N", "device": "NAME",
}  # fmt: skip
KINDS = {int: "N", float: "X", str: "TEXT", tuple: "A,B,…"}


PLAIN = {  # what argparse says, in our words
    r"argument ([^:/]+)(/[^:]+)?: expected (one|at least one) argument": r"\1 needs a value",
    r"argument ([^:]+): invalid int value: (.*)": r"\1 takes a whole number, got \2",
    r"argument ([^:]+): invalid float value: (.*)": r"\1 takes a number, got \2",
    r"argument ([^:]+): not allowed with argument (.*)": r"\1 and \2 exclude each other",
    r"argument ([^:/]+)(/[^:]+)?: ignored explicit argument (.*)": r"\1 takes no value, got \3",
    r"the following arguments are required: (.*)": r"\1 is missing",
}


class Parser(argparse.ArgumentParser):
    """argparse whose errors are ours: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        for pattern, plain in PLAIN.items():
            message = re.sub(pattern, plain, message)
        raise UsageError(f"{message}. `{self.prog} --help` tells more.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [*map(str, action.choices)]
        near = difflib.get_close_matches(str(value), known, n=1)
        what = "command" if action.dest == "command" else action.option_strings[0]
        hint = f"Perhaps you meant {near[0]}." if near else f"There is {', '.join(known)}."
        raise UsageError(f"{what} {value} is unknown. {hint}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; errors a user can cause are one line, never a stack trace."""
    # Before torch is loaded: threads that wait must not burn the cores of a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        arguments, extra = parser().parse_known_args(argv)
        if arguments.command is None:
            parser().print_help()
            return 0
        if extra and arguments.command != "train":
            raise UsageError(f"{extra[0]} is not an option of `tamatch {arguments.command}`.")
        if launch.processes() > 1 and arguments.command not in ("train", "resume"):
            raise UsageError("torchrun is for `tamatch train` and `tamatch resume` alone.")
        arguments.extra = extra
        status: int = arguments.run(arguments)
        return status
    except TamatchError as error:
        if launch.place() == 0 or not error.alike:
            print(f"tamatch: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("tamatch: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def parser() -> Parser:
    top = Parser(
        prog="tamatch", allow_abbrev=False,
        description="Learn an image classifier from a few labels and many unlabelled images.",
        epilog="`tamatch train` alone runs a demo. `tamatch COMMAND --help` tells more.",
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"tamatch {__version__}")
    commands = top.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=Parser
    )

    def command(name: str, run: Callable[[Any], int], summary: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.set_defaults(run=run)
        return sub

    def of_run(name: str, run: Callable[[Any], int], summary: str) -> argparse.ArgumentParser:
        sub = command(name, run, summary)
        sub.add_argument("path", metavar="RUN", type=Path, help="run folder")
        add_net(sub)
        return sub

    def add_net(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--net", metavar="FILE.py:NAME", help="the net, if it is code of your own")

    sub = command("check", check, "describe a data set or a folder before training on it")
    sub.add_argument("data", metavar="NAME|DIR", help="data set by name, or a folder")
    sub.add_argument("--download", action="store_true", help="fetch a named set first")
    sub.add_argument("--json", action="store_true", help="print JSON")
    for name in ("root", "labels", "size", *SPLIT):
        add_option(sub, RUN_OPTIONS[name])
    add_train_options(command("train", train, "train a classifier"))
    sub = command("resume", resume, "continue a stopped run exactly where it was")
    sub.add_argument(
        "paths", metavar="RUN", nargs="+", type=Path,
        help="run folder, or the --out of several seeds; several runs go on abreast",
    )  # fmt: skip
    add_net(sub)
    sub = of_run("evaluate", evaluate, "test a run's model")
    sub.add_argument(
        "--data", metavar="NAME|DIR", help="other data, by name or folder (default: the run's own)"
    )
    sub.add_argument("--root", metavar="DIR", help="folder that holds a named data set")
    sub.add_argument("--json", action="store_true", help="print JSON")
    sub = of_run("predict", predict, "label images with a run's model")
    sub.add_argument(
        "images", metavar="IMAGE", nargs="+", help="files, folders, or - for names on stdin"
    )
    sub.add_argument("-0", "--null", action="store_true", help="names on stdin end with NUL")
    sub.add_argument("--format", choices=("csv", "jsonl"), default="csv", help="default: csv")
    sub.add_argument("--top", type=int, metavar="N", help="the N best classes instead of all")
    where = sub.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, metavar="FILE", help="write here, not to the screen")
    where.add_argument("--csv", type=Path, metavar="FILE", help="--out FILE --format csv")
    sub.add_argument("--overwrite", action="store_true", help="replace an older file")
    sub = of_run("label", label, "label a run's unlabelled pool as a CSV")
    sub.add_argument("--out", type=Path, metavar="FILE", required=True, help="CSV to write")
    cut = sub.add_mutually_exclusive_group()
    cut.add_argument("--min-confidence", type=float, metavar="C", help="no label below this")
    cut.add_argument(
        "--precision", type=float, metavar="P",
        help="share of right labels that the confidence cut must ensure, by validation images",
    )  # fmt: skip
    sub.add_argument(
        "--folds", type=int, metavar="K",
        help="judge the cut by the labelled images: train K runs, each without a part of them",
    )  # fmt: skip
    sub.add_argument("--overwrite", action="store_true", help="replace an older file")
    sub = of_run("review", review, "label the most useful images on a page in the browser")
    sub.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="CSV that the labels go to (default: the run's own, or labels.csv)",
    )  # fmt: skip
    sub.add_argument("--port", type=int, metavar="N", default=0, help="port (default: a free one)")
    sub.add_argument("--no-browser", action="store_true", help="only print the address")
    sub = of_run("export", export, "write a run's model for other programs, and check it")
    sub.add_argument(
        "--format", required=True, choices=("onnx", "pt2", "safetensors"),
        help="for ONNX Runtime, for torch without this package, or the weights as they are",
    )  # fmt: skip
    sub.add_argument(
        "--out", type=Path, metavar="PATH",
        help="file, or folder for safetensors (default: in RUN/export)",
    )  # fmt: skip
    sub.add_argument("--overwrite", action="store_true", help="replace an older export")
    sub = command("report", report, "write report.html for a run, or compare several")
    sub.add_argument("paths", metavar="RUN", nargs="+", type=Path, help="run folders")
    sub.add_argument(
        "--out", type=Path, metavar="FILE",
        help="page to write (default: RUN/report.html; of several runs comparison.html)",
    )  # fmt: skip
    bench.add_arguments(command("bench", bench.run, "make the paper's tables and figures"))
    sub = command("methods", methods, "list the methods, or the options of one")
    sub.add_argument("name", metavar="NAME", nargs="?", help="a method")
    sub.add_argument("--json", action="store_true", help="print JSON")
    sub = command("nets", nets, "list the nets")
    sub.add_argument("--json", action="store_true", help="print JSON")
    return top


def add_train_options(sub: argparse.ArgumentParser) -> None:
    sub.epilog = "A method's own options (--tau, …) are listed by `tamatch methods NAME`."
    sub.add_argument("--out", type=Path, metavar="RUN", help="run folder (default: runs/…)")
    sub.add_argument("--overwrite", action="store_true", help="delete an older run in --out")
    sub.add_argument("--seeds", metavar="0,1,2", help="a run for each seed, all of them abreast")
    sub.add_argument(
        "--time", metavar="DURATION", help="end within 90s, 20m or 1h30m: sets the steps"
    )
    sub.add_argument("--config", type=Path, metavar="FILE", help="YAML of options; options win")
    sub.add_argument("--print-config", action="store_true", help="print all settings and stop")
    common = sub.add_argument_group("common")
    rare = sub.add_argument_group("finer control")
    for name, option in RUN_OPTIONS.items():
        add_option(common if name in COMMON else rare, option)


def add_option(group: Any, option: Option) -> None:
    default = "chosen, or the recipe's" if option.required else option.default
    told = "" if default is None else f" (default: {default})"
    about = {"help": f"{option.help}{told}", "default": argparse.SUPPRESS}
    if option.type is bool:
        group.add_argument(option.flag, action=argparse.BooleanOptionalAction, **about)
        return
    what = WHAT.get(option.name, KINDS[option.type])
    if option.choices:
        what = "{" + ",".join(option.choices) + "}"
    group.add_argument(option.flag, dest=option.name, metavar=what, **about)


def given_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What the user set: declared options, and the rest as the method's own."""
    given = {k: v for k, v in vars(arguments).items() if k in RUN_OPTIONS}
    words = iter(arguments.extra)
    for word in words:
        if not word.startswith("--"):
            hint = f" Perhaps you meant --data {word}." if names_data(word) else ""
            raise UsageError(f"{word!r} is no option; options are --name value.{hint}")
        name, equals, value = word[2:].partition("=")
        if not equals:
            value = next(words, "--")
            if value.startswith("--"):
                configure({**given, name.replace("-", "_"): None})  # says if it is unknown
                raise UsageError(f"--{name} needs a value.")
        given[name.replace("-", "_")] = value
    return given


def names_data(word: str) -> bool:
    return word in PROTOCOLS or os.path.exists(word)


def check(arguments: Any) -> int:
    from .data import DATASETS, SplitPlan
    from .data.check import check as describe
    from .data.download import download
    from .progress import counting

    given = {k: RUN_OPTIONS[k].parse(v) for k, v in vars(arguments).items() if k in RUN_OPTIONS}
    root, labels = (Path(given[k]) if given.get(k) else None for k in ("root", "labels"))
    if arguments.download:
        with counting("downloading") as progress:
            download(arguments.data, root, progress)
    wanted = {k: v for k, v in given.items() if k in SPLIT}
    if "labelled_in_pool" in wanted:
        wanted["labelled_in_pool"] = wanted["labelled_in_pool"] == "yes"
    entry = DATASETS.get(arguments.data)
    preset = without_rivals(dataclasses.asdict(entry.plan), wanted) if entry else {}
    plan = SplitPlan(**{**preset, **wanted}) if wanted or entry else None
    with counting("reading images") as progress:
        found = describe(arguments.data, root, plan, given.get("size"), progress, labels)
    print(json.dumps(found.to_json(), indent=1) if arguments.json else "\n".join(found.lines()))
    if found.problems:
        raise DataError(found.problems[0])
    return 0


def train(arguments: Any) -> int:
    given = given_options(arguments)
    known = configure(given, arguments.config)  # complain before the long import
    if arguments.time is not None:
        parse_time(arguments.time)
    if arguments.seeds is not None:
        read_seeds(arguments.seeds)
    if arguments.print_config:
        if arguments.time is not None or known.data not in PROTOCOLS:
            from .automatic import decide

            known = decide(given, arguments.config, arguments.time).run
        print(dump(known), end="")
        return 0
    where = {name: getattr(arguments, name) for name in ("out", "overwrite", "config", "time")}
    if arguments.seeds is not None:
        from . import seeds

        return show_group(seeds.start(arguments.seeds, given, **where))
    from . import run

    show_end(run.train(**where, **given).path)
    return 0


def resume(arguments: Any) -> int:
    from . import run, seeds

    path, *more = arguments.paths
    if more or SeedFolder(path).exists():
        return show_group(seeds.go_on(arguments.paths, net=arguments.net))
    show_end(run.resume(path, net=arguments.net).path)
    return 0


def show_group(group: Group) -> int:
    """The small table at the end of several runs; then the error of one that has no result."""
    show_table(group.table())
    paths = [str(job.folder.path) for job in group.jobs]
    print(f"Reports: report.html in each run. `tamatch report {shlex.join(paths)}` compares them.")
    group.finished()
    return 0


def show_end(path: Path) -> None:
    """The small table at the end of a run."""
    if not launch.leads():
        return
    from rich.console import Console

    from .report import summary_table, verdict_on

    show_table(summary_table(path))
    console = Console()
    if told := verdict_on(path):
        console.print(f"Did the unlabelled images help? {told}", markup=False, soft_wrap=True)
    console.print(f"Report: {path / 'report.html'}", highlight=False, soft_wrap=True)


def show_table(rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    header, *others = rows
    table = Table(*map(escape, header))
    for row in others:
        table.add_row(*map(escape, row))
    Console().print(table)


def evaluate(arguments: Any) -> int:
    from .use import evaluate as measure

    found = measure(arguments.path, arguments.data, arguments.root, net=arguments.net)
    per_class = dict(zip(found.classes, found.marks.per_class, strict=True))
    if arguments.json:
        row = {"data": found.data, "images": found.images, "error": found.marks.error}
        row |= {"accuracy": found.trust.accuracy, "interval": found.trust.interval}
        row |= {"balanced_accuracy": found.trust.balanced_accuracy}
        row |= {"ece": found.trust.calibration.before.ece}
        print(json.dumps({**row, "per_class_accuracy": per_class}))
        return 0
    print("\n".join(found.lines()))
    return 0


def predict(arguments: Any) -> int:
    from .predict import predict as write_predictions

    if arguments.csv and arguments.format == "jsonl":
        raise UsageError("--csv writes CSV: use --out with --format jsonl.")
    write_predictions(
        arguments.path, arguments.images, arguments.csv or arguments.out, null=arguments.null,
        format="csv" if arguments.csv else arguments.format, top=arguments.top,
        overwrite=arguments.overwrite, net=arguments.net,
    )  # fmt: skip
    return 0


def label(arguments: Any) -> int:
    from .label import label as write_labels

    options = {"min_confidence": arguments.min_confidence, "precision": arguments.precision}
    made = write_labels(
        arguments.path, arguments.out, **options, folds=arguments.folds,
        overwrite=arguments.overwrite, quiet=False, net=arguments.net,
    )  # fmt: skip
    print("\n".join(made.lines()))
    return 0


def review(arguments: Any) -> int:
    from .review.command import review as serve

    if not 0 <= arguments.port <= 65_535:
        raise UsageError(f"--port must lie in 0 … 65535, got {arguments.port}.")
    browser = not arguments.no_browser
    serve(
        arguments.path, labels=arguments.labels, port=arguments.port, browser=browser,
        net=arguments.net,
    )  # fmt: skip
    return 0


def export(arguments: Any) -> int:
    from .export import export as write_model

    made = write_model(
        arguments.path, arguments.format, arguments.out, overwrite=arguments.overwrite,
        net=arguments.net,
    )  # fmt: skip
    print(
        f"{made.path}: equals the run's model on {made.images} images by {made.checked_with}; "
        f"no probability differs by more than {made.difference:.1e}."
    )
    return 0


def report(arguments: Any) -> int:
    from .report import write_comparison, write_report

    paths = [run.path for path in arguments.paths for run in runs_in(path)]
    paths = [*{path.resolve(): path for path in paths}.values()]
    if len(paths) == 1:
        print(write_report(paths[0], arguments.out))
    else:
        print(write_comparison(paths, arguments.out or Path("comparison.html")))
    return 0


def methods(arguments: Any) -> int:
    if arguments.name:
        return method_page(arguments.name, as_json=arguments.json)
    if arguments.json:
        rows = [{"name": k, "title": e.title, "summary": e.summary} for k, e in METHODS.items()]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    for name, row in METHODS.items():
        print(f"{name:24} {row.title:24} {row.summary}")
    return 0


def method_page(name: str, *, as_json: bool) -> int:
    row, options = entry(name), method_options(name)
    if as_json:
        own = {k: {"default": o.default, "help": o.help} for k, o in options.items()}
        print(json.dumps({"name": name, "title": row.title, "options": own}, ensure_ascii=False))
        return 0
    print(f"{row.title}: {row.summary}\n")
    for option in options.values():
        takes = " | ".join(option.choices) or (f"must {option.bounds}" if option.bounds else "")
        print(f"  {option.flag:18} {option.help} (default {option.default}); {takes}")
    return 0


def nets(arguments: Any) -> int:
    rows = {**NETS, **{name: found for name, (_, found) in FAMILIES.items()}}
    if arguments.json:
        keys = ("summary", "size", "parameters")
        listed = [{"name": n, **{k: getattr(e, k) for k in keys}} for n, e in rows.items()]
        print(json.dumps(listed, indent=1, ensure_ascii=False))
        return 0
    for name, row in rows.items():
        print(f"{name:32} {row.parameters:34} {row.summary}")
    return 0
