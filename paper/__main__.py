"""`python -m paper NAME`: the page of results, the figures and the printed hyper-parameters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from tamatch.cli import guarded
from tamatch.cli.parser import Parser

from . import figures, params, race, report, toy

COMMANDS = {
    "report": ("write docs/reproduction.md from the results folder", report),
    "params": ("Tables 6 and 7: hyper-parameters next to the printed ones", params),
    "toy": ("Figure 1: why small batches amplify bias", toy),
    "bias": ("Figure 3: confirmation bias of TaMatch and FixMatch", figures),
    "clipping": ("Figure 4: TaMatch with and without clipping", figures),
    "race": ("error over the minutes of training", race),
    "classes": ("long tails: the accuracy of each class during training", figures),
    "pool": ("long tails: the pool's class shares, estimated and true", figures),
}


def top_parser() -> Parser:
    top = Parser(prog="python -m paper", description=__doc__.partition(": ")[2], allow_abbrev=False)
    subs = top.add_subparsers(
        dest="command", metavar="NAME", title="names", parser_class=Parser, required=True
    )
    for name, (summary, module) in COMMANDS.items():
        sub = subs.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.set_defaults(command=name, run=module.run)
        module.add_arguments(sub)
    return top


def command(argv: Sequence[str] | None, stdout: object) -> int:
    arguments = top_parser().parse_args(argv)
    status: int = arguments.run(arguments)
    return status


def main(argv: Sequence[str] | None = None) -> int:
    return guarded(partial(command, argv), "paper")


if __name__ == "__main__":
    sys.exit(main())
