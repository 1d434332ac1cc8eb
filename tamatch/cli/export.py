"""`tamatch export`: a run's model for other programs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from .shared import add_run


def add_arguments(sub: ArgumentParser) -> None:
    add_run(sub)
    sub.add_argument(
        "--format", required=True, choices=("onnx", "pt2", "safetensors"),
        help="for ONNX Runtime, for torch without this package, or the weights only",
    )  # fmt: skip
    sub.add_argument(
        "--out", type=Path, metavar="PATH",
        help="file, or for safetensors a folder (default: in RUN/export)",
    )  # fmt: skip
    sub.add_argument("--overwrite", action="store_true", help="replace an existing export")


def run(arguments: Namespace) -> int:
    from ..model.export import export

    made = export(
        arguments.path, arguments.format, arguments.out, overwrite=arguments.overwrite,
        net=arguments.net,
    )  # fmt: skip
    apart = f"the largest difference in probability is {made.difference:.1e}"
    print(
        f"{made.path}: matches the run's model on {made.images} images with {made.checked_with}; "
        f"{apart if made.difference else 'all probabilities are identical'}."
    )
    return 0
