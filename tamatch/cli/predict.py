"""`tamatch predict`: labels for images by a run's model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..errors import UsageError
from .shared import add_run


def add_arguments(sub: ArgumentParser) -> None:
    add_run(sub)
    sub.add_argument(
        "images", metavar="IMAGE", nargs="+", help="files, folders, or - to read names from stdin"
    )
    sub.add_argument(
        "-0", "--null", action="store_true", help="names on stdin are separated by NUL"
    )
    sub.add_argument(
        "--format", choices=("csv", "jsonl"), default="csv", help="output (default: csv)"
    )
    sub.add_argument("--top", type=int, metavar="N", help="only the N most likely classes")
    where = sub.add_mutually_exclusive_group()
    where.add_argument("--out", type=Path, metavar="FILE", help="file to write (default: stdout)")
    where.add_argument("--csv", type=Path, metavar="FILE", help="short for --out FILE --format csv")
    sub.add_argument("--overwrite", action="store_true", help="replace an existing file")


def run(arguments: Namespace) -> int:
    from ..model.predict import predict

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
