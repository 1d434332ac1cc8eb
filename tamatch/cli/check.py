"""`tamatch check`: describe data before training on them."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..settings.config import RUN_OPTIONS
from ..settings.configure import filled_in
from ..settings.recipes import PROTOCOLS
from .shared import add_json, add_option

if TYPE_CHECKING:
    from ..data import SplitPlan

SPLIT_OPTIONS = (
    "labels_per_class", "head_labelled", "head_unlabelled", "gamma", "gamma_unlabelled",
    "validation_per_class", "fold", "labelled_in_pool", "seed",
)  # fmt: skip


def add_arguments(sub: ArgumentParser) -> None:
    sub.add_argument("data", metavar="NAME|DIR", help="name of a data set, or a folder")
    sub.add_argument("--download", action="store_true", help="download a named data set first")
    add_json(sub)
    for name in ("root", "labels", "size", *SPLIT_OPTIONS):
        add_option(sub, RUN_OPTIONS[name])


def run(arguments: Namespace) -> int:
    from ..data.archives import download
    from ..data.check import check
    from ..progress import counting

    given = {k: RUN_OPTIONS[k].parse(v) for k, v in vars(arguments).items() if k in RUN_OPTIONS}
    root, labels = (Path(given[k]) if given.get(k) else None for k in ("root", "labels"))
    if arguments.download:
        with counting("downloading") as progress:
            download(arguments.data, root, progress)
    plan = plan_of(arguments.data, given)
    with counting("reading images") as progress:
        found = check(arguments.data, root, plan, given.get("size"), progress, labels)
    print(json.dumps(found.to_json(), indent=1) if arguments.json else "\n".join(found.lines()))
    if found.problems:
        raise DataError(found.problems[0])
    return 0


def plan_of(data: str, given: dict[str, Any]) -> SplitPlan | None:
    """The split that training draws with these options; None if nothing says how."""
    from ..data import SplitPlan
    from ..data.splits import read_fold

    options = filled_in(given, PROTOCOLS.get(data, {}))
    split = {name: options[name] for name in SPLIT_OPTIONS if name in options}
    if "labelled_in_pool" in split:
        split["labelled_in_pool"] = split["labelled_in_pool"] == "yes"
    if "fold" in split:
        split["fold"] = read_fold(split["fold"])
    return SplitPlan(**split) if split else None
