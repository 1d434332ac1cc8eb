"""Options as data: read from annotations, parsed from text, and shown as they are typed."""

import dataclasses
import inspect
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import UsageError, nearest, perhaps
from ..kinds import Between

NAMED = re.compile(r"(.+?)=([^=,]+)(?:,|$)|(.+)")  # name=number; a name may have commas in it
LARGEST = 2**53  # whole numbers are read as floats, which have gaps beyond it

OTHER_NAMES = {  # what other programs call it
    "epochs": "steps", "iterations": "steps", "learning_rate": "lr", "dataset": "data",
    "model": "net", "gpu": "device", "image_size": "size", "threshold": "tau",
    "pretrained": "weights", "algorithm": "method", "num_train_iter": "steps",
    "num_eval_iter": "test_every", "num_labels": "labels_per_class", "uratio": "unlabelled",
    "p_cutoff": "tau", "data_dir": "root",
}  # fmt: skip
TAKES = {
    int: "a whole number", float: "a number", tuple: "comma-separated numbers", bool: "yes or no",
}  # fmt: skip
BOOLEANS = {"yes": True, "true": True, "no": False, "false": False}
KINDS = (int, float, bool, str, tuple[float, ...])  # of values that `parse` can read


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
        if self.choices and (chosen := str(value)) not in self.choices:
            hint = perhaps(chosen, self.choices, most=1)
            raise UsageError(f"{self.flag} takes {', '.join(self.choices)}; got {chosen!r}.{hint}")
        try:
            number = self._convert(value)
        except (KeyError, ValueError, TypeError, OverflowError):
            wanted = TAKES.get(self.type, self.type.__name__)
            wanted += ", or NAME=NUMBER with commas" if self.named else ""
            raise UsageError(f"{self.flag} takes {wanted}, got {value!r}.") from None
        if self.bounds is not None and number not in self.bounds:
            raise UsageError(f"{self.flag} must {self.bounds}, got {value}.")
        if self.type is int and abs(number) > LARGEST:
            raise UsageError(f"{self.flag} takes a whole number up to {LARGEST:,}, got {value}.")
        return number

    def _convert(self, value: Any) -> Any:
        if self.type is bool:
            return value if isinstance(value, bool) else BOOLEANS[str(value).lower()]
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


def unknown_option(
    name: str, known: dict[str, Option], method: str, others: Sequence[str]
) -> UsageError:
    """The error for an unknown option, with a similar name or the methods that have it."""
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


def from_hint(name: str, hint: Any, default: Any, owner: str) -> Option | None:
    """An option from an `Annotated` type; None for a parameter that is not annotated as one."""
    hint, *others = union_members(hint)
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    written, *notes = typing.get_args(hint)
    kind, *more = union_members(written)
    choices: tuple[str, ...] = ()
    if typing.get_origin(kind) is Literal:
        choices, kind = typing.get_args(kind), str
    if kind not in KINDS or {*more} - {type(None)} or not all(isinstance(c, str) for c in choices):
        raise UsageError(
            f"{owner}'s option {name} has the unsupported type "
            f"{inspect.formatannotation(written)}. Supported are int, float, bool, str, a Literal "
            "of strings and tuple[float, ...], each optionally with `| None`."
        )
    required = default is dataclasses.MISSING or default is inspect.Parameter.empty
    option = Option(
        name,
        typing.get_origin(kind) or kind,
        default=None,
        help=next((n for n in notes if isinstance(n, str)), ""),
        bounds=next((n for n in notes if isinstance(n, Between)), None),
        choices=choices,
        optional=type(None) in (*others, *more),
        required=required,
        named=dict[str, float] in others,
    )
    if required:
        return option
    try:
        return dataclasses.replace(option, default=option.parse(default))
    except UsageError as error:
        raise UsageError(f"{owner}'s option {name} has an invalid default: {error}") from None


def union_members(hint: Any) -> list[Any]:
    """The types of a union, None after the others; a list of one for any other type."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return sorted(typing.get_args(hint) if union else [hint], key=lambda h: h is type(None))


def options_of_dataclass(cls: Any) -> dict[str, Option]:
    """The options of a configuration dataclass, in the order of its fields."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = dataclasses.fields(cls)
    found = (from_hint(f.name, hints[f.name], f.default, cls.__name__) for f in fields)
    return {option.name: option for option in found if option is not None}


def keyword_options(cls: type) -> dict[str, Option | None]:
    """The keyword parameters of a class and its parents as options; None for one that is no option.

    The first class that names a keyword decides. Without an `Annotated` type, it fixes an option of
    its parent; in a class of the user's own, the type of a new keyword or its default is enough.
    """
    found: dict[str, Option | None] = {}
    plain: dict[str, Option] = {}
    for owner in cls.__mro__:
        init = owner.__dict__.get("__init__")
        if init is None or owner is object:
            continue
        hints = typing.get_type_hints(init, include_extras=True)
        parameters = inspect.signature(init).parameters.values()
        for p in (p for p in parameters if p.kind is p.KEYWORD_ONLY):
            option = from_hint(p.name, hints.get(p.name), p.default, cls.__name__)
            if option is not None:
                plain.pop(p.name, None)
            elif p.name not in found and not is_ours(owner):
                plain |= plain_option(p, hints.get(p.name), cls.__name__)
            found.setdefault(p.name, option)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return {**found, **plain}


def plain_option(p: inspect.Parameter, hint: Any, owner: str) -> dict[str, Option]:
    """A keyword as an option without help and bounds, by name; none if it takes other objects."""
    kind = type(p.default) if hint is None else hint
    try:
        option = from_hint(p.name, typing.Annotated[kind, ""], p.default, owner)
    except (UsageError, TypeError):
        return {}
    return {} if option is None else {p.name: option}


def is_ours(cls: type) -> bool:
    """Whether a class is of this package."""
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]


def undescribed_option(name: str, cls: type, method: str) -> UsageError | None:
    """The error for a keyword of the user's method that is no option; None for other names."""
    parameters = (
        inspect.signature(owner.__dict__["__init__"]).parameters.get(name)
        for owner in cls.__mro__
        if "__init__" in owner.__dict__ and owner is not object and not is_ours(owner)
    )
    if not any(p is not None and p.kind is p.KEYWORD_ONLY for p in parameters):
        return None
    return UsageError(
        f"{flag_of(name)} is not an option: {method} fixes {name}, or its type is none that can be "
        f'typed. To open it: `{name}: Annotated[float, "what it is"] = …`.'
    )
