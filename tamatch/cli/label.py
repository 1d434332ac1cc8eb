"""`tamatch label`: labels for the pool of a run."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from .shared import add_moved, add_run


def add_arguments(sub: ArgumentParser) -> None:
    add_run(sub)
    sub.add_argument("--out", type=Path, metavar="FILE", required=True, help="CSV to write")
    threshold = sub.add_mutually_exclusive_group()
    threshold.add_argument(
        "--min-confidence", type=float, metavar="C", help="leave labels below this confidence empty"
    )
    threshold.add_argument(
        "--precision", type=float, metavar="P",
        help="share of correct labels to ensure; validation images set the threshold",
    )  # fmt: skip
    sub.add_argument(
        "--folds", type=int, metavar="K",
        help="set the threshold by the labelled images: train K runs, each without part of them",
    )  # fmt: skip
    add_moved(sub)
    sub.add_argument("--overwrite", action="store_true", help="replace its own earlier table")


def run(arguments: Namespace) -> int:
    from ..runs.label import label

    made = label(
        arguments.path, arguments.out, min_confidence=arguments.min_confidence,
        precision=arguments.precision, folds=arguments.folds, overwrite=arguments.overwrite,
        quiet=False, net=arguments.net, data=arguments.data,
    )  # fmt: skip
    print("\n".join(made.lines()))
    return 0
