"""The commands that use runs or label images: from evaluate and predict to start and export."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..storage.files import refuse_existing, write_bytes
from ..storage.seedfolder import runs_in
from .output import show_run
from .parser import add_json, add_look, add_net


def called(function: Callable[..., Any], arguments: Namespace, **more: Any) -> Any:
    """Call a function with the arguments that have the names of its parameters, and some more."""
    names = signature(function).parameters
    given = {name: value for name, value in vars(arguments).items() if name in names}
    return function(**given | more)


def add_run(sub: ArgumentParser) -> None:
    """A run folder, and its net if that is code."""
    sub.add_argument("path", metavar="RUN", type=Path, help="run folder")
    add_net(sub)


def add_moved(sub: ArgumentParser) -> None:
    sub.add_argument("--data", metavar="DIR", help="where the run's images are now, if moved")


def add_evaluate(sub: ArgumentParser) -> None:
    add_run(sub)
    sub.add_argument(
        "--data", metavar="NAME|DIR", help="other data, a name or a folder (default: the run's own)"
    )
    sub.add_argument("--root", metavar="DIR", help="folder that contains a named data set")
    add_json(sub)


def run_evaluate(arguments: Namespace) -> int:
    from ..model.evaluate import evaluate

    found = called(evaluate, arguments)
    print(json.dumps(found.to_json()) if arguments.json else "\n".join(found.lines()))
    return 0


def add_predict(sub: ArgumentParser) -> None:
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


def run_predict(arguments: Namespace) -> int:
    from ..model.predict import predict

    if arguments.csv and arguments.format == "jsonl":
        raise UsageError("--csv always writes CSV: for --format jsonl, use --out.")
    out = arguments.csv or arguments.out
    images = called(predict, arguments, out=out)
    if out is not None:
        print(f"{out}: {images:,} image{'s' * (images != 1)}.")
    return 0


def add_label(sub: ArgumentParser) -> None:
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


def run_label(arguments: Namespace) -> int:
    from ..runs.label import label

    print("\n".join(called(label, arguments, quiet=False).lines()))
    return 0


def add_pick(sub: ArgumentParser) -> None:
    sub.add_argument("path", metavar="DIR|RUN", type=Path, help="folder of images, or a run on one")
    sub.add_argument(
        "--count", type=int, metavar="N", default=50, help="how many images (default: 50)"
    )
    sub.add_argument(
        "--drawn", type=int, metavar="N", default=0,
        help="so many more, drawn at random: the error is estimated by these (default: 0)",
    )  # fmt: skip
    sub.add_argument(
        "--csv", type=Path, metavar="FILE", help="table to write, with a column for the labels"
    )
    sub.add_argument("--labels", type=Path, metavar="FILE", help="CSV of labels given so far")
    add_look(sub)
    sub.add_argument("--overwrite", action="store_true", help="replace an existing table")


def run_pick(arguments: Namespace) -> int:
    from ..runs.pick import pick

    picked = pick(
        arguments.path, arguments.count, arguments.csv, drawn=arguments.drawn,
        labels=arguments.labels, weights=arguments.weights, device=arguments.device,
        overwrite=arguments.overwrite,
    )  # fmt: skip
    for remark in picked.remarks:
        print(remark, file=sys.stderr)  # stdout is the list
    print("\n".join(picked.lines()))
    return 0


def add_review(sub: ArgumentParser) -> None:
    add_run(sub)
    sub.add_argument(
        "--labels", type=Path, metavar="FILE",
        help="CSV to save the labels in (default: the run's own, or labels.csv)",
    )  # fmt: skip
    add_moved(sub)
    add_page(sub)


def add_page(sub: ArgumentParser) -> None:
    sub.add_argument("--port", type=int, metavar="N", default=0, help="port (default: a free one)")
    sub.add_argument(
        "--no-browser", action="store_false", dest="browser",
        help="only print the address, open no browser",
    )  # fmt: skip


def port_of(arguments: Namespace) -> int:
    if not 0 <= arguments.port <= 65_535:
        raise UsageError(f"--port must lie in 0 … 65535, got {arguments.port}.")
    return int(arguments.port)


def add_start(sub: ArgumentParser) -> None:
    sub.add_argument("path", metavar="DIR|RUN", type=Path, help="folder of images, or a run on one")
    add_look(sub)
    add_page(sub)


def run_start(arguments: Namespace) -> int:
    from ..review.command import show, start
    from ..runs.run import train

    if (wanted := called(start, arguments, port=port_of(arguments))) is None:
        return 0
    run = train(**wanted).path
    status = show_run(run)
    show((run / "report.html").absolute().as_uri(), browser=arguments.browser)
    return status


def run_review(arguments: Namespace) -> int:
    from ..review.command import review

    called(review, arguments, port=port_of(arguments))
    return 0


def add_export(sub: ArgumentParser) -> None:
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


def run_export(arguments: Namespace) -> int:
    from ..model.export import export

    made = called(export, arguments)
    apart = f"the largest difference in probability is {made.difference:.1e}"
    print(
        f"{made.path}: matches the run's model on {made.images} images with {made.checked_with}; "
        f"{apart if made.difference else 'all probabilities are identical'}."
    )
    return 0


def add_report(sub: ArgumentParser) -> None:
    sub.add_argument("paths", metavar="RUN", nargs="+", type=Path, help="run folders")
    sub.add_argument(
        "--out", type=Path, metavar="FILE",
        help="page to write (default: RUN/report.html; for several runs comparison.html)",
    )  # fmt: skip


def run_report(arguments: Namespace) -> int:
    from ..report import write_comparison, write_report

    if arguments.out is not None and arguments.out.is_dir():
        raise UsageError(f"--out {arguments.out} is a folder; give a file.")
    paths = [run.path for path in arguments.paths for run in runs_in(path)]
    paths = [*{path.resolve(): path for path in paths}.values()]
    if len(paths) == 1:
        print(write_report(paths[0], arguments.out))
    else:
        print(write_comparison(paths, arguments.out or Path("comparison.html")))
    return 0


def add_history(sub: ArgumentParser) -> None:
    sub.add_argument("path", metavar="RUN", type=Path, help="run folder")
    sub.add_argument(
        "--rows", choices=("train", "validation", "test"), default="train",
        help="lines of training, or tests on these images (default: train)",
    )  # fmt: skip
    sub.add_argument(
        "--csv", type=Path, nargs="?", metavar="FILE", help="file to write (default: stdout)"
    )
    sub.add_argument("--overwrite", action="store_true", help="replace an existing file")


def run_history(arguments: Namespace) -> int:
    from ..storage.history import history

    text = history(arguments.path).csv(arguments.rows)
    if arguments.csv is None:
        print(text, end="")
        return 0
    refuse_existing(arguments.csv, is_folder=False, overwrite=arguments.overwrite, option="--csv")
    write_bytes(arguments.csv, text.encode())
    print(f"{arguments.csv}: {text.count(chr(10)) - 1:,} {arguments.rows} rows.")
    return 0
