"""Options read from the annotations of a dataclass or of a method's signature."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from typing import Any, Literal

from ..errors import UsageError
from ..kinds import Between
from .options import Option, flag_of

KINDS = (int, float, bool, str, tuple[float, ...])  # of values that `parse` can read


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
    return option if required else with_default(option, default, owner)


def union_members(hint: Any) -> list[Any]:
    """The types of a union, None after the others; a list of one for any other type."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return sorted(typing.get_args(hint) if union else [hint], key=lambda h: h is type(None))


def with_default(option: Option, default: Any, owner: str) -> Option:
    """The option with a default, which must be a value that it takes."""
    try:
        return dataclasses.replace(option, default=option.parse(default))
    except UsageError as error:
        raise UsageError(
            f"{owner}'s option {option.name} has an invalid default: {error}"
        ) from None


def options_of_dataclass(cls: Any) -> dict[str, Option]:
    """The options of a configuration dataclass, in the order of its fields."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = dataclasses.fields(cls)
    found = (from_hint(f.name, hints[f.name], f.default, cls.__name__) for f in fields)
    return {option.name: option for option in found if option is not None}


def keyword_options(cls: type) -> dict[str, Option | None]:
    """The keyword parameters of a class, then those its `**` hands to parents; None if no option.

    The class that names a keyword first decides what it is: one that fixes what its parent leaves
    open names it, too, without an `Annotated` type.
    """
    found: dict[str, Option | None] = {}
    for owner in cls.__mro__:
        init = owner.__dict__.get("__init__")
        if init is None or owner is object:
            continue
        hints = typing.get_type_hints(init, include_extras=True)
        parameters = inspect.signature(init).parameters.values()
        for p in parameters:
            if p.kind is p.KEYWORD_ONLY and p.name not in found:
                found[p.name] = from_hint(p.name, hints.get(p.name), p.default, cls.__name__)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return found


def undescribed_option(name: str, cls: type, method: str) -> UsageError | None:
    """The error for a keyword of a method that says nothing about itself; None if there is none.

    Keywords of our own methods that do not are for the methods that build on them.
    """
    ours = __name__.partition(".")[0]
    parameters = (
        inspect.signature(owner.__dict__["__init__"]).parameters.get(name)
        for owner in cls.__mro__
        if "__init__" in owner.__dict__
        and owner.__module__.partition(".")[0] not in (ours, "builtins")
    )
    if not any(p is not None and p.kind is p.KEYWORD_ONLY for p in parameters):
        return None
    return UsageError(
        f"{flag_of(name)} is not an option, as {method} does not describe {name}. Its type must "
        f'be Annotated: `{name}: Annotated[float, "what it is"] = …`.'
    )
