"""The commands by name, and the parser of them all."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import NamedTuple, Protocol

from .. import __version__
from ..bench import commands as bench
from . import check, evaluate, export, label, methods, nets, predict, report, resume, review, train
from .parser import Parser


class Module(Protocol):
    """What the module of a command has."""

    def add_arguments(self, sub: ArgumentParser, /) -> None: ...

    def run(self, arguments: Namespace, /) -> int: ...


class Command(NamedTuple):
    summary: str
    module: Module


COMMANDS = {
    "check": Command("describe a data set or a folder before training on it", check),
    "train": Command("train a classifier", train),
    "resume": Command("continue a stopped run exactly where it stopped", resume),
    "evaluate": Command("test a run's model", evaluate),
    "predict": Command("label images with a run's model", predict),
    "label": Command("write labels for a run's unlabelled pool to a CSV", label),
    "review": Command("label the most useful images in the browser", review),
    "export": Command("export a run's model for other programs, and verify it", export),
    "report": Command("write report.html for a run, or compare several", report),
    "bench": Command("make the runs of a table, rank methods, measure speed", bench),
    "methods": Command("list the methods, or the options of one", methods),
    "nets": Command("list the nets", nets),
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
    for name, (summary, module) in COMMANDS.items():
        sub = subs.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.set_defaults(run=module.run, parser=sub)
        module.add_arguments(sub)
    return top
