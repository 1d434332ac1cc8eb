"""Errors that a user can cause: one line that says what happened, where, and what to do."""

import difflib
from collections.abc import Collection, Iterable


class TamatchError(Exception):
    """Base of all errors meant for the user; the command line prints it without a traceback."""

    exit_code = 1
    in_every_process = False  # True: all processes of a run raise it, and one prints it


class UsageError(TamatchError):
    """A wrong option, name or value."""

    exit_code = 2
    in_every_process = True


class DataError(TamatchError):
    """Images, labels or files that cannot be used."""

    exit_code = 3


class StorageError(DataError):
    """A file of ours that cannot be written: the disk is full, or it is not allowed."""


class NumericError(TamatchError):
    """Training reached values that are not finite."""

    exit_code = 4


class DeviceError(TamatchError):
    """The GPU failed, or a program on it: what is in its memory is lost, the files are not."""

    exit_code = 5


class Stopped(KeyboardInterrupt):
    """A run that was asked to stop, by Ctrl-C, SIGTERM or SIGHUP, and saved itself first.

    Not an `Exception`: a sweep that catches errors must not go on with its next run.
    """

    in_every_process = True

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.signal = number
        self.exit_code = 128 + number  # 130 for Ctrl-C, 143 for SIGTERM


def one_line(error: BaseException, most: int | None = None) -> str:
    """What an exception says, on one line of at most `most` characters; else its type."""
    return " ".join(str(error).split())[:most] or type(error).__name__


def nearest(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Known names that are similar; one alone if it differs only in case, dashes or underscores."""
    names: dict[str, str] = {}
    for name in known:
        names.setdefault(_folded(name), name)
    small = _folded(word)
    near = [small] if small in names else difflib.get_close_matches(small, names, n=most)
    return [names[name] for name in near]


def perhaps(word: str, known: Iterable[str], most: int = 3) -> str:
    """A sentence with the names that a wrong word may have meant; empty if none is similar."""
    near = nearest(word, known, most)
    return f" Perhaps you meant {' or '.join(near)}." if near else ""


def unknown_name(what: str, name: str, known: Collection[str], most: int = 3) -> UsageError:
    """The error for an unknown name, with what it may have been meant to be."""
    hint = perhaps(name, known, most) or f" Available: {', '.join(known)}."
    return UsageError(f"{what} {name} is unknown.{hint}")


def _folded(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")
