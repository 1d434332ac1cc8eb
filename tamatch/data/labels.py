"""Labels that a person gave after the fact: a table that adds to a folder's own (`--labels`)."""

from __future__ import annotations

import dataclasses
import os
import posixpath
import shlex
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..errors import DataError, UsageError, perhaps
from ..storage.spreadsheet import printable
from .dataset import PARTS, DataSet
from .layout import TABLES, class_name
from .partnames import PART_NAMES
from .table import Row, known_label, notes_on, read_table, refuse_contradiction

NEAR = 3  # names that an error suggests


def with_labels(data: DataSet, table: Path, place: Path) -> DataSet:
    """The data, which lie at `place`, with the labels of a table: these win over the folder's.

    An image that gets its first label moves from the unlabelled part to the training part, unless
    the table says to which. An empty label says nothing: the image stays as it is. A file that
    cannot be used may be named.
    """
    labels, part_of = data.labels.copy(), np.empty(len(data.labels), np.int64)
    for p, images in enumerate(data.parts):
        part_of[images] = p
    rows = known_rows(data, table, place)
    for i, row in rows.items():
        if label := known_label(row.label, data.classes):
            labels[i] = data.classes.index(class_name(label))
            first_label = part_of[i] == PARTS.index("unlabelled")
            if part := row.part or ("train" if first_label else None):
                part_of[i] = PARTS.index(part)
    parts = tuple(np.flatnonzero(part_of == p) for p in range(len(PARTS)))
    notes = (*data.notes, *notes_on(rows.values(), data.classes))
    return dataclasses.replace(data, labels=labels, parts=parts, notes=notes)


def refuse_table_inside(table: Path, data: Path) -> None:
    """A table of labels inside the data folder would replace its class folders: refuse it."""
    where, root = table.absolute().parent.resolve(), data.resolve()
    of_a_part = where.parent == root and where.name.lower() in PART_NAMES
    if table.name in TABLES and (where == root or of_a_part) and data.is_dir():
        elsewhere = os.path.relpath(root.parent / table.name)
        advice = (
            "Move it elsewhere, or rename it."
            if table.exists()
            else f"Give one elsewhere, such as --labels {shlex.quote(elsewhere)}."
        )
        raise UsageError(
            f"--labels {table} is in the data folder, where a {table.name} replaces the class "
            f"folders. {advice}"
        )


def known_rows(data: DataSet, table: Path, place: Path) -> dict[int, Row]:
    """Image and line of every line about one that can be used; each must fit the data."""
    if not data.given_labels:
        raise UsageError(
            f"--labels adds labels to your own images, but {data.name} is already fully labelled. "
            "To set how many of its labels a run uses, give --labels-per-class."
        )
    images = {name: i for i, name in enumerate(data.files)}
    unusable = {name for name, _ in data.skipped}
    found: dict[int, Row] = {}
    for row in read_table(table, folder_of(place)):
        name, label = printable(row.name), class_name(known_label(row.label, data.classes))
        if name in unusable:
            continue
        if name not in images:
            raise DataError(f"{table}, line {row.line}: {_no_image(data, name, images)}")
        if label and label not in data.classes:
            raise DataError(f"{table}, line {row.line}: {_no_class(data, label)}")
        refuse_contradiction(table, found.setdefault(images[name], row), row)
    return found


def folder_of(place: Path) -> str:
    """What the names of the images are relative to."""
    return os.fspath(place if place.is_dir() else place.parent)


def _no_image(data: DataSet, name: str, images: Mapping[str, int]) -> str:
    """The likeliest mistake is a name without its folder."""
    alike = [file for file in images if posixpath.basename(file) == posixpath.basename(name)]
    hint = f" Perhaps you meant {' or '.join(alike[:NEAR])}." if alike else ""
    return f"{data.name} has no image {name}.{hint} File names are relative to {data.name}."


def _no_class(data: DataSet, label: str) -> str:
    return (
        f'"{label}" is not a class of {data.name}.{perhaps(label, data.classes, NEAR)} '
        f"A new class needs its own folder; known classes: {', '.join(data.classes)[:200]}."
    )
