"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..settings.options import Option

PLACEHOLDERS = {  # placeholders in the help, where the type of an option says too little
    "data": "NAME|DIR", "root": "DIR", "labels": "FILE", "weights": "NAME|FILE", "from_": "RUN",
    "method": "NAME", "net": "NAME", "fold": "K/N", "device": "NAME",
}  # fmt: skip
KIND_PLACEHOLDERS = {int: "N", float: "X", str: "TEXT", tuple: "A,B,…"}


def add_run(sub: argparse.ArgumentParser) -> None:
    """A run folder, and its net if that is code."""
    sub.add_argument("path", metavar="RUN", type=Path, help="run folder")
    add_net(sub)


def add_net(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--net", metavar="FILE.py:NAME", help="the net, if it is your own code")


def add_moved(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--data", metavar="DIR", help="where the run's images are now, if moved")


def add_json(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--json", action="store_true", help="print JSON")


def add_option(group: Any, option: Option) -> None:
    """A setting of a run, to a parser or a group of one; absent unless it is given."""
    default = "automatic, or from the recipe" if option.required else option.default
    told = "" if default is None else f" (default: {default})"
    about = {"help": f"{option.help}{told}", "default": argparse.SUPPRESS}
    if option.type is bool:
        group.add_argument(option.flag, action=argparse.BooleanOptionalAction, **about)
        return
    what = PLACEHOLDERS.get(option.name, KIND_PLACEHOLDERS[option.type])
    if option.choices:
        what = "{" + ",".join(option.choices) + "}"
    group.add_argument(option.flag, dest=option.name, metavar=what, **about)
