"""The commands by name, the parser of them all, and those that list methods and nets."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict
from typing import NamedTuple

from .. import __version__, bench
from ..methods import METHODS, entry
from ..nets import FAMILIES, NETS
from ..nets.pretrained import HUB, PRETRAINED
from ..settings.config import method_options
from ..settings.options import as_text
from . import train, use
from .parser import Parser, add_json


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


class Command(NamedTuple):
    summary: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


COMMANDS = {
    "check": Command(
        "describe a data set or a folder before training on it", train.add_check, train.run_check
    ),
    "train": Command("train a classifier", train.add_train, train.run_train),
    "resume": Command(
        "continue a stopped run exactly where it stopped", train.add_resume, train.run_resume
    ),
    "evaluate": Command("test a run's model", use.add_evaluate, use.run_evaluate),
    "predict": Command("label images with a run's model", use.add_predict, use.run_predict),
    "label": Command(
        "write labels for a run's unlabelled pool to a CSV", use.add_label, use.run_label
    ),
    "pick": Command(
        "list the images of a folder that are most worth a label", use.add_pick, use.run_pick
    ),
    "review": Command(
        "label the most useful images in the browser", use.add_review, use.run_review
    ),
    "export": Command(
        "export a run's model for other programs, and verify it", use.add_export, use.run_export
    ),
    "report": Command(
        "write report.html for a run, or compare several", use.add_report, use.run_report
    ),
    "history": Command("write the curves of a run as CSV", use.add_history, use.run_history),
    "bench": Command(
        "make the runs of a table, rank methods, measure speed", bench.add_arguments, bench.run
    ),
    "from-usb": Command(
        "turn a configuration of USB into a command", train.add_from_usb, train.run_from_usb
    ),
    "methods": Command("list the methods, or the options of one", add_methods, run_methods),
    "nets": Command("list the nets", add_json, run_nets),
}


def top_parser() -> Parser:
    top = Parser(
        prog="tamatch", allow_abbrev=False,
        description="Learn an image classifier from a few labels and many unlabelled images.",
        epilog="`tamatch train` by itself runs a demo. `tamatch COMMAND --help` shows its options.",
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"tamatch {__version__}")
    subs = top.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=Parser
    )
    for name, (summary, add_arguments, run) in COMMANDS.items():
        sub = subs.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.set_defaults(run=run, parser=sub)
        add_arguments(sub)
    return top
