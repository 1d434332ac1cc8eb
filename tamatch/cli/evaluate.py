"""`tamatch evaluate`: a run's model on labelled images."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from .shared import add_json, add_run


def add_arguments(sub: ArgumentParser) -> None:
    add_run(sub)
    sub.add_argument(
        "--data", metavar="NAME|DIR", help="other data, a name or a folder (default: the run's own)"
    )
    sub.add_argument("--root", metavar="DIR", help="folder that contains a named data set")
    add_json(sub)


def run(arguments: Namespace) -> int:
    from ..model.evaluate import evaluate

    found = evaluate(arguments.path, arguments.data, arguments.root, net=arguments.net)
    print(json.dumps(found.to_json()) if arguments.json else "\n".join(found.lines()))
    return 0
