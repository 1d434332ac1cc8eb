"""Labels that a person gave after the fact: a table that adds to a folder's own (`--labels`)."""

from __future__ import annotations

import dataclasses
import difflib
import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ..errors import DataError, UsageError
from .dataset import PARTS, UNKNOWN, DataSet
from .layout import TABLES, printable
from .table import Row, read_table

NEAR = 3  # names that an error suggests


def with_labels(data: DataSet, table: Path) -> DataSet:
    """The data with the labels of a table, which win over those of the folder.

    An image that gets its first label moves from the unlabelled part to the training part. An
    empty label says nothing: the image stays as it is. A file that cannot be used may be named.
    """
    labels = data.labels.copy()
    for i, label in known_labels(data, table).items():
        labels[i] = label
    moved = data.part("unlabelled")[labels[data.part("unlabelled")] != UNKNOWN]
    parts = dict(zip(PARTS, data.parts, strict=True))
    parts["train"] = np.union1d(parts["train"], moved)
    parts["unlabelled"] = np.setdiff1d(parts["unlabelled"], moved, assume_unique=True)
    return dataclasses.replace(data, labels=labels, parts=tuple(parts.values()))


def apart(table: Path, data: Path) -> None:
    """A table of labels inside the data folder would replace its class folders: refuse it."""
    where = table.absolute().parent.resolve()
    if table.name in TABLES and data.resolve() in (where, where.parent) and data.is_dir():
        raise UsageError(
            f"--labels {table} lies in the data folder, where a {table.name} replaces the class "
            "folders. Put it elsewhere, or give it another name."
        )


def known_labels(data: DataSet, table: Path) -> dict[int, int]:
    """Image and class of every line that says something; each must be one of the data's."""
    if not data.given_labels:
        raise UsageError(
            f"--labels adds to the labels of your own images, and {data.name} has all of its own. "
            "How many of them a run sees is set by --labels-per-class."
        )
    images = {name: i for i, name in enumerate(data.files)}
    classes = {name: c for c, name in enumerate(data.classes)}
    unusable = {name for name, _ in data.skipped}
    found: dict[int, Row] = {}
    for row in read_table(table):
        name, label = plain(row.name), printable(row.label)
        if name in unusable:
            continue
        if name not in images:
            raise DataError(f"{table}, line {row.line}: {_no_image(data, name, images)}")
        if not label:
            continue
        if label not in classes:
            raise DataError(f"{table}, line {row.line}: {_no_class(data, label)}")
        first = found.setdefault(images[name], row)
        if first.label != row.label:  # the same file under two spellings
            raise DataError(
                f'{table}, lines {first.line} and {row.line}: {name} is listed as "{first.label}" '
                f'and as "{row.label}". Keep one of the two.'
            )
    return {i: classes[printable(row.label)] for i, row in found.items()}


def plain(name: str) -> str:
    """A file's name as `DataSet.files` spells it."""
    return posixpath.normpath(printable(name))


def _no_image(data: DataSet, name: str, images: Mapping[str, int]) -> str:
    """The likeliest mistake is a name without its folder."""
    alike = [file for file in images if posixpath.basename(file) == posixpath.basename(name)]
    return f"{data.name} has no image {name}.{_perhaps(alike)} Names are relative to {data.name}."


def _no_class(data: DataSet, label: str) -> str:
    folded = {c.casefold(): c for c in reversed(data.classes)}
    near = difflib.get_close_matches(label.casefold(), folded, n=NEAR, cutoff=0.5)
    return (
        f'"{label}" is no class of {data.name}.{_perhaps([folded[c] for c in near])} '
        f"A new class needs a folder of its own; known: {', '.join(data.classes)[:200]}."
    )


def _perhaps(names: Iterable[str]) -> str:
    some = list(names)[:NEAR]
    return f" Perhaps you meant {' or '.join(some)}." if some else ""
