"""The warnings that a run has written down: what was seen, the likely cause, the cure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .values import table, text


@dataclass(frozen=True)
class Warned:
    """A warning in three parts."""

    what: str
    cause: str
    cure: str


def warnings_of(about: Mapping[str, object]) -> list[Warned]:
    """Those in run.json that say anything."""
    listed = about.get("warnings")
    found = []
    for entry in listed if isinstance(listed, list) else []:
        what, cause, cure = (text(table(entry).get(k)) for k in ("what", "cause", "cure"))
        if what:
            found.append(Warned(what[0].upper() + what[1:], cause, cure))
    return found
