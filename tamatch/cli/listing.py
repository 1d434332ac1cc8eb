"""The commands that list methods and nets."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from ..methods import METHODS, entry
from ..nets import FAMILIES, NETS
from ..nets.pretrained import HUB, PRETRAINED
from ..settings.config import method_options
from ..settings.options import as_text
from .parser import add_json

add_nets = add_json


def add_methods(sub: ArgumentParser) -> None:
    sub.add_argument("name", metavar="NAME", nargs="?", help="a method")
    add_json(sub)


def run_methods(arguments: Namespace) -> int:
    if arguments.name:
        return show_method(arguments.name, as_json=arguments.json)
    if arguments.json:
        rows = [{"name": k, "title": e.title, "summary": e.summary} for k, e in METHODS.items()]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    for name, row in METHODS.items():
        print(f"{name:24} {row.title:24} {row.summary}")
    return 0


def show_method(name: str, *, as_json: bool) -> int:
    row, options = entry(name), method_options(name)
    if as_json:
        own = {
            k: {"default": o.default, "fixed": k in row.options, "help": o.help}
            for k, o in options.items()
        }
        print(json.dumps({"name": name, "title": row.title, "options": own}, ensure_ascii=False))
        return 0
    print(f"{row.title}: {row.summary}\n")
    width = max((len(option.flag) for option in options.values()), default=0)
    for option in options.values():
        takes = " | ".join(option.choices) or (f"must {option.bounds}" if option.bounds else "")
        state = "fixed at" if option.name in row.options else "default"
        value = "required" if option.required else f"{state} {as_text(option.default)}"
        print(f"  {option.flag:{width}}  {option.help} ({value})" + (f"; {takes}" if takes else ""))
    return 0


def run_nets(arguments: Namespace) -> int:
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
