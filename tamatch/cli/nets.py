"""`tamatch nets`: a line for each net, or family of nets."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from ..nets import FAMILIES, NETS
from .shared import add_json


def add_arguments(sub: ArgumentParser) -> None:
    add_json(sub)


def run(arguments: Namespace) -> int:
    rows = {**NETS, **{name: found for name, (_, found) in FAMILIES.items()}}
    if arguments.json:
        keys = ("summary", "size", "parameters")
        listed = [{"name": n, **{k: getattr(e, k) for k in keys}} for n, e in rows.items()]
        print(json.dumps(listed, indent=1, ensure_ascii=False))
        return 0
    for name, row in rows.items():
        print(f"{name:32} {row.parameters:34} {row.summary}")
    return 0
