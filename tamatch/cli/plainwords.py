"""A parser whose errors are ours: one line that says what to do, exit code 2."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NoReturn

from ..errors import UsageError

PLAIN = {  # what argparse says, in our words
    r"argument ([^:/]+)(/[^:]+)?: expected (one|at least one) argument": r"\1 needs a value",
    r"argument ([^:]+): invalid int value: (.*)": r"\1 takes a whole number, got \2",
    r"argument ([^:]+): invalid float value: (.*)": r"\1 takes a number, got \2",
    r"argument ([^:]+): not allowed with argument (.*)": r"\1 and \2 exclude each other",
    r"argument ([^:/]+)(/[^:]+)?: ignored explicit argument (.*)": r"\1 takes no value, got \3",
    r"unrecognized arguments: (\S+).*": r"\1 is not an option",
    r"the following arguments are required: (.*)": r"\1 is missing",
}


class Parser(argparse.ArgumentParser):
    """argparse, in plain words."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        words = [*(sys.argv[1:] if args is None else args)]
        found, extra = super().parse_known_args(words, namespace)
        if extra:
            self._expect_commas(words, extra)
        return found, extra

    def _expect_commas(self, words: list[str], extra: list[str]) -> None:
        """`--seeds 0 1` leaves a word over: say that `--seeds 0,1` is meant."""
        for at, flag in enumerate(words):
            action = self._option_string_actions.get(flag)
            if action is None or "," not in str(action.metavar):
                continue
            values = [*takewhile(lambda word: not word.startswith("--"), words[at + 1 :])]
            joined = ",".join(value.strip(",") for value in values)
            numbers = {re.fullmatch(r"[\d.]+", value) is not None for value in joined.split(",")}
            if len(values) > 1 and values[-1] in extra and len(numbers) == 1:
                raise UsageError(f"{flag} takes its values with commas: {flag} {joined}.")

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
