"""The argument parser of all commands, whose errors are one line that says what to do; and
arguments that several commands have."""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NoReturn

from ..errors import UsageError, perhaps, unknown_name
from ..settings.options import Option

REWORDED = {  # what argparse says, in our words
    r"argument ([^:/]+)(/[^:]+)?: expected (one|at least one) argument": r"\1 needs a value",
    r"argument ([^:]+): invalid int value: (.*)": r"\1 takes a whole number, got \2",
    r"argument ([^:]+): invalid float value: (.*)": r"\1 takes a number, got \2",
    r"argument ([^:]+): not allowed with argument (.*)": r"\1 and \2 cannot be used together",
    r"argument ([^:/]+)(/[^:]+)?: ignored explicit argument (.*)": r"\1 takes no value, got \3",
    r"unrecognized arguments: (\S+).*": r"\1 is not an option",
    r"the following arguments are required: (.*)": r"\1 is missing",
}
PLACEHOLDERS = {  # placeholders in the help, where the type of an option says too little
    "data": "NAME|DIR", "root": "DIR", "labels": "FILE", "weights": "NAME|FILE", "from_": "RUN",
    "method": "NAME", "net": "NAME", "fold": "K/N", "device": "NAME",
}  # fmt: skip
KIND_PLACEHOLDERS = {int: "N", float: "X", str: "TEXT", tuple: "A,B,…"}
MOST_WORDS = 10  # of a name


class Parser(argparse.ArgumentParser):
    """argparse, in plain words."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        words = [*(sys.argv[1:] if args is None else args)]
        found, extra = super().parse_known_args(words, namespace)
        self._expect_commas(words, extra)
        if name := unquoted_name(words, extra):
            raise UsageError(f"a name with spaces must be quoted: {shlex.quote(name)}.")
        return found, extra

    def _expect_commas(self, words: list[str], extra: list[str]) -> None:
        """`--seeds 0 1` leaves a word over, `--seed 0,1` has one too many: say what to type."""
        for at, flag in enumerate(words):
            values = [*takewhile(lambda word: not word.startswith("--"), words[at + 1 :])]
            joined = ",".join(value.strip(",") for value in values)
            numbers = {re.fullmatch(r"[\d.]+", value) is not None for value in joined.split(",")}
            over = len(values) > 1 and values[-1] in extra and len(numbers) == 1
            if over and self._takes_several(flag):
                raise UsageError(f"{flag} takes comma-separated values: {flag} {joined}.")
            if "," in joined and numbers == {True} and self._takes_several(flag + "s"):
                raise UsageError(f"{flag} takes one value. For several, use {flag}s {joined}.")

    def _takes_several(self, flag: str) -> bool:
        action = self._option_string_actions.get(flag)
        return action is not None and "," in str(action.metavar)

    def near(self, word: str) -> str:
        """A hint at the option that a word nearly is."""
        return perhaps(word.partition("=")[0], self._option_string_actions, most=1)

    def not_an_option(self, word: str) -> UsageError:
        """The error for a word that is left over."""
        hint = self.near(word) or f" See `{self.prog} --help`."
        bare = word.lstrip("-").partition("=")[0].lower()
        for action in self._get_positional_actions():
            if bare in (action.dest, str(action.metavar).lower()):
                hint = f" Perhaps you meant {action.metavar} by itself, without {word}."
        if "--data" in self._option_string_actions and os.path.exists(word):
            hint = f" Perhaps you meant --data {word}."
        return UsageError(f"{word} is not an option of `{self.prog}`.{hint}")

    def error(self, message: str) -> NoReturn:
        for pattern, plain in REWORDED.items():
            message = re.sub(pattern, plain, message)
        raise UsageError(f"{message}. See `{self.prog} --help`.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [*map(str, action.choices)]
        what = "command" if action.dest == "command" else action.option_strings[0]
        raise unknown_name(what, str(value), known, most=1)


def unquoted_name(words: list[str], extra: list[str]) -> str | None:
    """The file or folder whose name the first word left over is a part of, as in `my photos`."""
    if not extra or extra[0] not in words:
        return None
    at = words.index(extra[0])
    starts, ends = range(max(0, at - MOST_WORDS), at), range(at + 1, at + MOST_WORDS)
    names = (" ".join(words[start:end]) for start in starts for end in ends)
    return next(filter(os.path.exists, names), None)


def add_look(
    sub: argparse.ArgumentParser, what: str = "of the net that looks at the images"
) -> None:
    """The net that looks at the images."""
    sub.add_argument("--weights", metavar="NAME|FILE", help=what)
    sub.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda or cuda:N")


def add_net(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--net", metavar="FILE.py:NAME", help="the net, if it is your own code")


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
