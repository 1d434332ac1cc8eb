"""A parser whose errors are ours: one line that says what to do, exit code 2."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import Any, NoReturn

from ..errors import UsageError

PLAIN = {  # what argparse says, in our words
    r"argument ([^:/]+)(/[^:]+)?: expected (one|at least one) argument": r"\1 needs a value",
    r"argument ([^:]+): invalid int value: (.*)": r"\1 takes a whole number, got \2",
    r"argument ([^:]+): invalid float value: (.*)": r"\1 takes a number, got \2",
    r"argument ([^:]+): not allowed with argument (.*)": r"\1 and \2 exclude each other",
    r"argument ([^:/]+)(/[^:]+)?: ignored explicit argument (.*)": r"\1 takes no value, got \3",
    r"the following arguments are required: (.*)": r"\1 is missing",
}


class Parser(argparse.ArgumentParser):
    """argparse, in plain words."""

    def error(self, message: str) -> NoReturn:
        for pattern, plain in PLAIN.items():
            message = re.sub(pattern, plain, message)
        raise UsageError(f"{message}. `{self.prog} --help` tells more.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [*map(str, action.choices)]
        near = difflib.get_close_matches(str(value), known, n=1)
        what = "command" if action.dest == "command" else action.option_strings[0]
        hint = f"Perhaps you meant {near[0]}." if near else f"There is {', '.join(known)}."
        raise UsageError(f"{what} {value} is unknown. {hint}")
