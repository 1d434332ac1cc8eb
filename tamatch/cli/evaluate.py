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
    from ..apply.evaluate import evaluate

    found = evaluate(arguments.path, arguments.data, arguments.root, net=arguments.net)
    if not arguments.json:
        print("\n".join(found.lines()))
        return 0
    figures = {
        "data": found.data,
        "images": found.images,
        "part": found.part,
        "error": found.error,
        "accuracy": found.trust.accuracy,
        "interval": found.trust.interval,
        "balanced_accuracy": found.trust.balanced_accuracy,
        "ece": found.trust.calibration.before.ece,
        "learnt_from": found.learnt_from,
        "gone": found.gone,
        "per_class_accuracy": dict(zip(found.classes, found.per_class, strict=True)),
    }
    print(json.dumps(figures))
    return 0
