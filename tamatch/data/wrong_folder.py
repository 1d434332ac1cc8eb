"""Detects that --data names the wrong folder, and guesses which one was meant."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ..errors import DataError, UsageError
from ..storage.folder import SEEDS, RunFolder
from .layout import Listing, folders_in, holds_images, list_images, table_of
from .partnames import UNLABELLED

DEEPEST = 8  # folders that are entered in search of the classes; links may lead round
SHOWN = 100  # characters of a list of classes


def refuse_run(place: Path) -> None:
    """The folders in a run are no classes, and its pictures are not to be learnt from."""
    if RunFolder(place).holds_run() or (place / SEEDS).is_file():
        path = shlex.quote(str(place))
        raise UsageError(
            f"--data {place} is a run folder, not an image folder. `tamatch report {path}` shows "
            f"its results, `tamatch resume {path}` continues it."
        )
    if table_of(place):
        return  # which lists the images, so that a run may lie beside them
    for record in sorted(place.glob("*/run.json")):
        if RunFolder(record.parent).holds_run():
            raise UsageError(
                f"--data {place} contains the run {record.parent}, but every folder in it must be "
                "a class. Give a folder that contains only images, or move the run elsewhere."
            )


def folder_hint(place: Path, listing: Listing) -> str:
    """A hint where a folder, listed here, has no two classes; empty if there is none to give."""
    if len(listing.labels) > 1 or table_of(place):
        return ""
    return hint_inside(place) if listing.labels else hint_above(place)


def hint_inside(place: Path) -> str:
    """The only class may be the folder of all classes."""
    inner, classes = first_with_classes(place)
    if not classes:
        return ""
    named = ", ".join(sorted(classes))[:SHOWN]
    if aside := [name for name, _ in folders_in(os.fspath(place)) if name.lower() in UNLABELLED]:
        return (
            f"Perhaps the classes are {named}: move these folders from {inner} to {place}, next to "
            f"{aside[0]}."
        )
    return f"Perhaps you meant {inner}, which has the classes {named}."


def first_with_classes(place: Path) -> tuple[Path, set[str]]:
    """The nearest folder that has classes, if there is no choice on the way to it."""
    top = place.resolve()
    for _ in range(DEEPEST):
        inside = [n for n, _ in folders_in(os.fspath(place)) if n.lower() not in UNLABELLED]
        if len(inside) != 1:
            break
        place /= inside[0]
        if RunFolder(place).holds_run() or not place.resolve().is_relative_to(top):
            break
        try:
            classes = list_images(place.absolute()).labels
        except DataError:  # it may not be read
            break
        if len(classes) > 1:
            return place, classes
    return place, set()


def hint_above(place: Path) -> str:
    """A folder with images, beside others with images, may be one of the classes."""
    above = place.parent if place.name not in ("", os.pardir) else place / os.pardir
    try:
        beside = [path for _, path in folders_in(os.fspath(above)) if holds_images(path)]
    except DataError:
        return ""
    if len(beside) < 2 or not holds_images(os.fspath(place)):
        return ""
    return f"Perhaps you meant {above}, where {place.resolve().name} is one of several folders."
