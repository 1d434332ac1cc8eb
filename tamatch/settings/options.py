"""Options as data: what a signature or a dataclass allows, read from its annotations."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import UsageError
from ..kinds import Between


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

    @property
    def flag(self) -> str:
        return "--" + self.name.rstrip("_").replace("_", "-")  # `from_`: a keyword of Python

    def parse(self, value: Any) -> Any:
        """The value in its type, or an error that names the option and what it takes."""
        if value is None or (value == "none" and self.optional and "none" not in self.choices):
            if self.optional:
                return None
            raise UsageError(f"{self.flag} needs a value.")
        if isinstance(value, str) and not value.strip():  # an empty path would be this folder
            raise UsageError(f"{self.flag} needs a value.")
        if self.choices:
            return self._chosen(str(value))
        if self.type is bool:
            return self._boolean(value)
        try:
            number = self._convert(value)
        except (ValueError, TypeError, OverflowError):
            kinds = {int: "a whole number", float: "a number", tuple: "numbers with commas"}
            wanted = kinds.get(self.type, self.type.__name__)
            raise UsageError(f"{self.flag} takes {wanted}, got {value!r}.") from None
        if self.bounds is not None and number not in self.bounds:
            raise UsageError(f"{self.flag} must {self.bounds}, got {value}.")
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
            return several(value)
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
        near = difflib.get_close_matches(value, self.choices, n=1)
        hint = f" Perhaps you meant {near[0]}." if near else ""
        raise UsageError(f"{self.flag} takes {', '.join(self.choices)}; got {value!r}.{hint}")


def several(value: Any) -> tuple[float, ...] | dict[str, float]:
    """Numbers with commas, or numbers by their names: a=1,b=2."""
    if isinstance(value, Mapping):
        return {str(name): float(number) for name, number in value.items()}
    items = value.split(",") if isinstance(value, str) else value
    if isinstance(value, str) and "=" in value:
        pairs = (item.rpartition("=") for item in items)
        return {name.strip(): float(number) for name, _, number in pairs}
    return tuple(float(item) for item in items)


def from_hint(name: str, hint: Any, default: Any) -> Option | None:
    """An option from an `Annotated` type; None for a parameter that is not annotated as one."""
    optional = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        optional = type(None) in typing.get_args(hint)
        hint = next(h for h in typing.get_args(hint) if h is not type(None))
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    kind, *notes = typing.get_args(hint)
    choices: tuple[str, ...] = ()
    if typing.get_origin(kind) is Literal:
        choices, kind = typing.get_args(kind), str
    bounds = next((n for n in notes if isinstance(n, Between)), None)
    text = next((n for n in notes if isinstance(n, str)), "")
    required = default in (dataclasses.MISSING, inspect.Parameter.empty)
    kind = typing.get_origin(kind) or kind
    default = None if required else default
    return Option(name, kind, default, text, bounds, choices, optional, required)


def of_dataclass(cls: Any) -> dict[str, Option]:
    """The options of a configuration dataclass, in the order of its fields."""
    hints = typing.get_type_hints(cls, include_extras=True)
    found = (from_hint(f.name, hints[f.name], f.default) for f in dataclasses.fields(cls))
    return {option.name: option for option in found if option is not None}


def of_class(cls: type) -> dict[str, Option]:
    """The options of a class: its own keyword parameters, then those its `**` hands to parents."""
    options: dict[str, Option] = {}
    for owner in cls.__mro__:
        init = owner.__dict__.get("__init__")
        if init is None or owner is object:
            continue
        hints = typing.get_type_hints(init, include_extras=True)
        parameters = inspect.signature(init).parameters.values()
        for p in parameters:
            option = from_hint(p.name, hints.get(p.name), p.default)
            if option is not None and p.kind is p.KEYWORD_ONLY:
                options.setdefault(p.name, option)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return options


def unannotated(name: str, cls: type, method: str) -> UsageError | None:
    """The error for a keyword of a method that says nothing about itself; None if there is none.

    Keywords of our own methods that do not are for the methods that build on them.
    """
    ours = __name__.partition(".")[0]
    keywords = (
        inspect.signature(owner.__dict__["__init__"]).parameters.get(name)
        for owner in cls.__mro__
        if "__init__" in owner.__dict__
        and owner.__module__.partition(".")[0] not in (ours, "builtins")
    )
    if not any(
        keyword is not None and keyword.kind is keyword.KEYWORD_ONLY for keyword in keywords
    ):
        return None
    flag = "--" + name.replace("_", "-")
    return UsageError(
        f"{flag} is not an option, as {method} does not say what {name} is. Its type must be "
        f'Annotated: `{name}: Annotated[float, "what it is"] = …`.'
    )


USUAL = {  # what other programs call it
    "epochs": "steps", "iterations": "steps", "learning_rate": "lr", "dataset": "data",
    "model": "net", "gpu": "device", "image_size": "size", "threshold": "tau",
    "pretrained": "weights",
}  # fmt: skip


def unknown(name: str, known: dict[str, Option], method: str) -> UsageError:
    """The error for an option that does not exist, with its near miss."""
    usual = USUAL.get(name)
    near = [usual] if usual in known else difflib.get_close_matches(name, known, n=1)
    flag = "--" + name.replace("_", "-")
    if not near:
        return UsageError(
            f"{flag} is not an option. `tamatch train --help` lists those of a run, "
            f"`tamatch methods {method}` those of the method."
        )
    option = known[near[0]]
    about = ", ".join(filter(None, [option.help, _default_text(option)]))
    return UsageError(f"{flag} is not an option. Perhaps you meant {option.flag} ({about}).")


def _default_text(option: Option) -> str:
    return "" if option.default is None else f"default {option.default}"
