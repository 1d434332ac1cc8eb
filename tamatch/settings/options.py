"""Options as data: what one takes, how it is read and how it is typed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError, nearest, perhaps
from ..kinds import Between

NAMED = re.compile(r"(.+?)=([^=,]+)(?:,|$)|(.+)")  # name=number; a name may have commas in it
LARGEST = 2**53  # whole numbers are read as floats, which have gaps beyond it


@dataclass(frozen=True)
class Option:
    """One named value a user may set."""

    name: str
    type: type
    default: Any
    help: str = ""
    bounds: Between | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False  # None is allowed
    required: bool = False  # there is no default
    named: bool = False  # several numbers may be given by names, too

    @property
    def flag(self) -> str:
        return flag_of(self.name.rstrip("_"))  # `from_`: a keyword of Python

    def parse(self, value: Any) -> Any:
        """The value in its type, or an error that names the option and what it takes."""
        text = value.strip() if isinstance(value, str) else None
        if self.optional and (value is None or (text == "none" and "none" not in self.choices)):
            return None
        if value is None or text == "":  # an empty path would be this folder
            raise UsageError(f"{self.flag} needs a value.")
        if self.choices:
            return self._chosen(str(value))
        if self.type is bool:
            return self._boolean(value)
        try:
            number = self._convert(value)
        except (ValueError, TypeError, OverflowError):
            kinds = {int: "a whole number", float: "a number", tuple: "comma-separated numbers"}
            wanted = kinds.get(self.type, self.type.__name__)
            raise UsageError(f"{self.flag} takes {wanted}, got {value!r}.") from None
        if self.bounds is not None and number not in self.bounds:
            raise UsageError(f"{self.flag} must {self.bounds}, got {value}.")
        if self.type is int and abs(number) > LARGEST:
            raise UsageError(f"{self.flag} takes a whole number up to {LARGEST:,}, got {value}.")
        return number

    def _convert(self, value: Any) -> Any:
        if isinstance(value, bool):
            raise TypeError
        if self.type is int:
            number = float(str(value).replace("_", ""))
            if not number.is_integer():
                raise ValueError
            return int(number)
        if self.type is float:
            number = float(value)
            if math.isnan(number) or math.isinf(number):
                raise ValueError
            return number
        if self.type is tuple:
            return parse_numbers(value, named=self.named)
        return self.type(value)

    def _boolean(self, value: Any) -> bool:
        words = {"yes": True, "true": True, "no": False, "false": False}
        if isinstance(value, bool):
            return value
        if str(value).lower() in words:
            return words[str(value).lower()]
        raise UsageError(f"{self.flag} takes yes or no, got {value!r}.")

    def _chosen(self, value: str) -> str:
        if value in self.choices:
            return value
        hint = perhaps(value, self.choices, most=1)
        raise UsageError(f"{self.flag} takes {', '.join(self.choices)}; got {value!r}.{hint}")


def flag_of(name: str) -> str:
    """An option as it is typed."""
    return "--" + name.replace("_", "-")


def parse_numbers(value: Any, *, named: bool) -> tuple[float, ...] | dict[str, float]:
    """Numbers with commas, or numbers by their names: a=1,b=2."""
    if named and isinstance(value, str) and "=" in value:
        return {name.strip(): float(number) for name, number, _ in NAMED.findall(value)}
    if named and isinstance(value, Mapping):
        return {str(name): float(number) for name, number in value.items()}
    if isinstance(value, Mapping):
        raise TypeError
    return tuple(float(item) for item in (value.split(",") if isinstance(value, str) else value))


def read_seeds(given: Sequence[int] | str) -> list[int]:
    """`--seeds 0,1,2`, or the numbers themselves."""
    if not isinstance(given, Iterable):
        raise UsageError(
            f"seeds takes a list of whole numbers, such as [0, 1, 2]; got {given!r}. For one seed, "
            "use train(seed=0)."
        )
    words = given.split(",") if isinstance(given, str) else [*map(str, given)]
    if not words or not all(word.strip().isdecimal() for word in words):
        raise UsageError(
            f"--seeds takes comma-separated whole numbers, such as 0,1,2; got {given!r}."
        )
    seeds = [*map(int, words)]
    if twice := [seed for seed in seeds if seeds.count(seed) > 1]:
        raise UsageError(f"--seeds lists {twice[0]} twice.")
    return seeds


def as_text(value: Any) -> str:
    """A value as one types it: what `Option.parse` reads again."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={number!r}" for name, number in value.items())
    if isinstance(value, tuple):
        return ",".join(map(repr, value))
    return "none" if value is None else str(value)


OTHER_NAMES = {  # what other programs call it
    "epochs": "steps", "iterations": "steps", "learning_rate": "lr", "dataset": "data",
    "model": "net", "gpu": "device", "image_size": "size", "threshold": "tau",
    "pretrained": "weights",
}  # fmt: skip


def unknown_option(
    name: str, known: dict[str, Option], method: str, others: Sequence[str]
) -> UsageError:
    """The error for an option that does not exist, with its near miss or whose it is instead."""
    flag = flag_of(name)
    if others:
        more = f" and {len(others) - 1} other methods" if len(others) > 2 else ""
        owners = f"{others[0]}{more}" if more else " and ".join(others)
        return UsageError(
            f"{flag} is an option of {owners}, but not of {method}. `tamatch methods {method}` "
            "lists those it has."
        )
    usual = OTHER_NAMES.get(name)
    near = [usual] if usual in known else nearest(name, known, most=1)
    if not near:
        return UsageError(
            f"{flag} is not an option. `tamatch train --help` lists the options of a run, `tamatch "
            f"methods {method}` those of the method."
        )
    option = known[near[0]]
    default = "" if option.default is None else f"default {as_text(option.default)}"
    about = ", ".join(filter(None, [option.help, default]))
    return UsageError(f"{flag} is not an option. Perhaps you meant {option.flag} ({about}).")
