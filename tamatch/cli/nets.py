"""`tamatch nets`: a line for each net, or family of nets, and for published weights."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from ..nets import FAMILIES, NETS
from ..nets.pretrained import HUB, PRETRAINED
from .shared import add_json


def add_arguments(sub: ArgumentParser) -> None:
    add_json(sub)


def run(arguments: Namespace) -> int:
    rows = {**NETS, **{name: found for name, (_, found) in FAMILIES.items()}}
    if arguments.json:
        keys = ("summary", "size", "parameters")
        listed = [{"name": n, **{k: getattr(e, k) for k in keys}} for n, e in rows.items()]
        weights = [{"name": name, **asdict(row)} for name, row in PRETRAINED.items()]
        print(json.dumps({"nets": listed, "weights": weights}, indent=1, ensure_ascii=False))
        return 0
    print("Nets (--net NAME):")
    for name, row in rows.items():
        print(f"{name:40} {row.parameters:38} {row.summary}")
    print("\nPre-trained weights (--weights NAME), downloaded on first use:")
    for name, found in PRETRAINED.items():
        print(f"{name:16} {found.size:7} {found.licence:11} {found.summary:34} {found.repo}")
    print(f"{HUB}OWNER/REPO   any other on the hub, if it is of one of these nets")
    return 0
