"""`tamatch predict`: labels for images by a run's model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..errors import UsageError
from .shared import add_run


def add_arguments(sub: ArgumentParser) -> None:
    add_run(sub)
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


def run(arguments: Namespace) -> int:
    from ..apply.predict import predict

    if arguments.csv and arguments.format == "jsonl":
        raise UsageError("--csv always writes CSV: for --format jsonl, use --out.")
    out = arguments.csv or arguments.out
    images = predict(
        arguments.path, arguments.images, out, null=arguments.null, top=arguments.top,
        format="csv" if arguments.csv else arguments.format, overwrite=arguments.overwrite,
        net=arguments.net,
    )  # fmt: skip
    if out is not None:
        print(f"{out}: {images:,} image{'s' * (images != 1)}.")
    return 0
