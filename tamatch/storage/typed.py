"""Values of JSON as what annotations say: of dataclasses, lists and tuples, or an error."""

from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

LARGEST = 1e300  # of numbers, so that they can be computed with; NaN is none
fields_of = cache(get_type_hints)  # of a dataclass


class UnknownField(Exception):
    """A table has fields that its dataclass does not have."""


def typed(value: Any, kind: Any, *, closed: bool = False) -> Any:
    """The value as a `kind`; TypeError if it is anything else.

    With `closed`, a table may have no other fields than its dataclass has.
    """
    outer, inner = get_origin(kind), get_args(kind)
    if outer is UnionType:  # with None, as no field is of two kinds
        return None if value is None else typed(value, inner[0], closed=closed)
    if outer in (list, tuple) and isinstance(value, list):
        alike = outer is list or inner[1:] == (...,)
        kinds = inner[:1] * len(value) if alike else inner
        if len(kinds) != len(value):
            raise TypeError(f"{value!r} is no {kind}")
        return outer(typed(v, k, closed=closed) for v, k in zip(value, kinds, strict=True))
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        fields = fields_of(kind)
        if closed and (unknown := sorted(value.keys() - fields.keys())):
            raise UnknownField(", ".join(unknown))
        given = {name: v for name, v in value.items() if name in fields}
        return kind(**{name: typed(v, fields[name], closed=closed) for name, v in given.items()})
    plain: Any = int | float if kind is float else outer or kind
    fits = isinstance(value, plain) and isinstance(value, bool) == (plain is bool)
    if not fits or (isinstance(value, int | float) and not abs(value) < LARGEST):
        raise TypeError(f"{value!r} is no {kind}")
    return value
