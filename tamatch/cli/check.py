"""`tamatch check`: describe data before training on them."""

from __future__ import annotations

import dataclasses
import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..errors import DataError
from ..settings.config import RUN_OPTIONS, without_rivals
from .shared import add_json, add_option

SPLIT = (
    "labels_per_class", "head_labelled", "head_unlabelled", "gamma", "gamma_unlabelled",
    "validation_per_class", "labelled_in_pool", "seed",
)  # fmt: skip


def add_arguments(sub: ArgumentParser) -> None:
    sub.add_argument("data", metavar="NAME|DIR", help="data set by name, or a folder")
    sub.add_argument("--download", action="store_true", help="fetch a named set first")
    add_json(sub)
    for name in ("root", "labels", "size", *SPLIT):
        add_option(sub, RUN_OPTIONS[name])


def run(arguments: Namespace) -> int:
    from ..data import DATASETS, SplitPlan
    from ..data.check import check
    from ..data.download import download
    from ..runs.progress import counting

    given = {k: RUN_OPTIONS[k].parse(v) for k, v in vars(arguments).items() if k in RUN_OPTIONS}
    root, labels = (Path(given[k]) if given.get(k) else None for k in ("root", "labels"))
    if arguments.download:
        with counting("downloading") as progress:
            download(arguments.data, root, progress)
    wanted = {k: v for k, v in given.items() if k in SPLIT}
    if "labelled_in_pool" in wanted:
        wanted["labelled_in_pool"] = wanted["labelled_in_pool"] == "yes"
    entry = DATASETS.get(arguments.data)
    preset = without_rivals(dataclasses.asdict(entry.plan), wanted) if entry else {}
    plan = SplitPlan(**{**preset, **wanted}) if wanted or entry else None
    with counting("reading images") as progress:
        found = check(arguments.data, root, plan, given.get("size"), progress, labels)
    print(json.dumps(found.to_json(), indent=1) if arguments.json else "\n".join(found.lines()))
    if found.problems:
        raise DataError(found.problems[0])
    return 0
