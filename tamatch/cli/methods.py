"""`tamatch methods`: a line for each method, or the options of one."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from ..methods import METHODS, entry
from ..settings.config import method_options
from ..settings.options import as_text
from .shared import add_json


def add_arguments(sub: ArgumentParser) -> None:
    sub.add_argument("name", metavar="NAME", nargs="?", help="a method")
    add_json(sub)


def run(arguments: Namespace) -> int:
    if arguments.name:
        return show_one(arguments.name, as_json=arguments.json)
    if arguments.json:
        rows = [{"name": k, "title": e.title, "summary": e.summary} for k, e in METHODS.items()]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    for name, row in METHODS.items():
        print(f"{name:24} {row.title:24} {row.summary}")
    return 0


def show_one(name: str, *, as_json: bool) -> int:
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
