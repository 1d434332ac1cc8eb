"""`tamatch review`: label images by hand, in the browser."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..errors import UsageError
from .shared import add_moved, add_run


def add_arguments(sub: ArgumentParser) -> None:
    add_run(sub)
    sub.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="CSV to save the labels in (default: the run's own, or labels.csv)",
    )  # fmt: skip
    add_moved(sub)
    sub.add_argument("--port", type=int, metavar="N", default=0, help="port (default: a free one)")
    sub.add_argument(
        "--no-browser", action="store_true", help="only print the address, open no browser"
    )


def run(arguments: Namespace) -> int:
    from ..review.command import review

    if not 0 <= arguments.port <= 65_535:
        raise UsageError(f"--port must lie in 0 … 65535, got {arguments.port}.")
    review(
        arguments.path, labels=arguments.labels, port=arguments.port,
        browser=not arguments.no_browser, net=arguments.net, data=arguments.data,
    )  # fmt: skip
    return 0
