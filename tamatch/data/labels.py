"""Tables of labels: CSV with the columns file_name and label, and split where it has one.

They list the images of a folder, or add to its labels (`--labels`).
"""

import csv
import dataclasses
import os
import posixpath
import re
import shlex
import unicodedata
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import DataError, UsageError, perhaps
from ..storage.spreadsheet import original, printable, restore
from .dataset import PARTS, UNKNOWN, UNUSED, DataSet

TABLES = ("labels.csv", "metadata.csv")
NAME = "file_name"
PATH = "path"  # the same in the tables of `tamatch predict`
LABEL = "label"
SPLIT = "split"
DRAWN = "drawn"  # whether an image has its label because it was drawn at random, or tells much
DRAWN_CELL = {True: "yes", False: "no", None: ""}  # None: nobody says
UNLABELLED = ("unlabelled", "unlabeled", "_unlabelled", "_unlabeled")
DRAWN_OF = {cell: drawn for drawn, cell in DRAWN_CELL.items()}
PART_NAMES = {
    "train": "train", "training": "train", "val": "validation", "valid": "validation",
    "validation": "validation", "test": "test", "testing": "test",
}  # fmt: skip
# what a table says about an image; an unlabelled one joins the training part with its first label
PART_OF = {**PART_NAMES, **dict.fromkeys(UNLABELLED, "train")}
# how programs write that there is nothing; "none" is not among them, a person may mean it
MISSING = ("nan", "NaN", "None", "null", "NULL", "<NA>")
NONE_OF_THESE = "none of these"  # a person has looked: the image is of no class
FORMERLY = {"\\n": "\n", "\\r": "\r", "\\t": "\t"}  # how such characters of a name were written
NEAR = 3  # names that an error suggests


class Row(NamedTuple):
    """One image of the table; an empty label means unlabelled."""

    name: str  # relative to the folder of the images, where it lies in it
    label: str
    part: str | None  # one of dataset.PARTS, if the table says so
    line: int  # where it is named first
    drawn: bool | None = None  # whether the image was drawn at random; None: nobody says


def read_table(path: Path, folder: str | None = None) -> list[Row]:
    """The images that a table names, each once; `folder` is theirs, by default the table's own.

    Commas, semicolons and tabs separate; other columns are ignored. Apostrophes that protect a
    spreadsheet from formulas are taken off.
    """
    images = os.path.abspath(folder or path.parent)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            heading = file.readline()
            file.seek(0)
            separator = max(",;\t", key=heading.count)
            rows = csv.DictReader(file, delimiter=separator, skipinitialspace=True)
            columns = {(name or "").strip().lower(): name for name in rows.fieldnames or ()}
            if PATH in columns:
                columns.setdefault(NAME, columns[PATH])
            if NAME not in columns or LABEL not in columns:
                raise DataError(
                    f"{path} needs the columns {NAME} and {LABEL} in its first line, "
                    f"found {', '.join(columns) or 'nothing'}."
                )
            found: dict[str, Row] = {}
            for cells in rows:
                name, label, split, drawn = (
                    restore((cells[columns[c]] or "").strip()) if c in columns else ""
                    for c in (NAME, LABEL, SPLIT, DRAWN)
                )
                if name:
                    row = _row(path, rows.line_num, _below(images, name), original(label), split)
                    row = row._replace(drawn=DRAWN_OF.get(drawn.lower()))
                    refuse_contradiction(path, found.setdefault(row.name, row), row)
            return list(found.values())
    except UnicodeDecodeError:
        raise DataError(f"{path} is not encoded in UTF-8. Save it as CSV in UTF-8.") from None
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except (OSError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read as CSV: {reason}.") from None


def class_name(name: str) -> str:
    """The printable name of a class, in which an "ä" is one character, not two."""
    return printable(unicodedata.normalize("NFC", name))


def known_class(label: str, classes: Collection[str] = ()) -> str:
    """The class of a label; empty for one that names none, unless a class has that name."""
    nothing = label in (*MISSING, NONE_OF_THESE) and label not in classes
    return "" if nothing else class_name(label)


def notes_on(rows: Iterable[Row], classes: Collection[str] = ()) -> tuple[str, ...]:
    """What the user should know of these labels."""
    nothing = [row.label for row in rows if row.label and not known_class(row.label, classes)]
    marked = nothing.count(NONE_OF_THESE)
    notes = [f'images with the label "{NONE_OF_THESE}", left out: {marked:,}'] if marked else []
    if missing := [label for label in nothing if label != NONE_OF_THESE]:
        said = " or ".join(f'"{label}"' for label in sorted({*missing}))
        notes.append(f"images with the label {said}, treated as unlabelled: {len(missing):,}")
    return (*notes,)


def _row(path: Path, line: int, name: str, label: str, split: str) -> Row:
    part = split.lower()
    if part and part not in PART_OF:
        raise DataError(
            f'{path}, line {line}: unknown {SPLIT} "{split}". Expected train, val, test or '
            "unlabelled; rename the column if it means something else."
        )
    without = label.lower() in UNLABELLED or part in UNLABELLED
    return Row(name, "" if without else label, PART_OF.get(part), line)


def _below(folder: str, name: str) -> str:
    """A file's name below a folder, one spelling for each file; those outside stay as they are."""
    name = os.path.normpath(_as_stored(folder, name))
    if os.path.isabs(name):
        for base in (folder, os.path.realpath(folder)):
            if name.startswith(os.path.join(base, "")):
                return os.path.relpath(name, base)
        return name
    return _without_folder(folder, name)


def _as_stored(folder: str, name: str) -> str:
    """The spelling that the file has: first what tamatch writes, then the cell as it stands.

    Windows writes \\ for /, some systems store an ä as two characters, and earlier tables have
    \\n for a line break.
    """
    if name.isascii() and "\\" not in name:
        return name
    meant, slashed = original(name), name.replace("\\", "/")
    forms = (unicodedata.normalize(form, slashed) for form in ("NFC", "NFD"))
    older = original(re.sub(r"\\[nrt]", lambda found: FORMERLY[found[0]], name))
    spellings = (meant, name, slashed, *forms, older)
    stored = (spelt for spelt in spellings if os.path.lexists(os.path.join(folder, spelt)))
    return next(stored, meant)


def _without_folder(folder: str, name: str) -> str:
    """A name as seen from above the folder (photos/cat/1.png), without the way to the folder."""
    above, parts = Path(folder).parts, Path(name).parts
    for k in range(1, len(parts)):
        if above[-k:] == parts[:k] and not os.path.lexists(os.path.join(folder, name)):
            inside = os.path.join(*parts[k:])
            if os.path.lexists(os.path.join(folder, inside)):
                return inside
    return name


def refuse_contradiction(path: Path, first: Row, row: Row) -> None:
    """Two lines about one image must say the same."""
    for one, other in ((first.label, row.label), (first.part or "", row.part or "")):
        if one != other:
            raise DataError(
                f"{path}, lines {first.line} and {row.line}: {printable(row.name)} is listed as "
                f'"{one}" and as "{other}". Keep one of the two.'
            )


def with_labels(data: DataSet, table: Path, place: Path) -> DataSet:
    """The data, read from `place`, with the labels of a table, which replace the folder's.

    An image that gets its first label moves from the unlabelled part to the training part, unless
    the table says to which; one that is none of the classes leaves it. An empty label says nothing:
    the image stays as it is. A file that cannot be used may be named.
    """
    labels, part_of = data.labels.copy(), np.full(len(data.labels), UNUSED)
    chosen = np.isin(np.arange(len(labels)), data.chosen)
    for p, images in enumerate(data.parts):
        part_of[images] = p
    rows = known_rows(data, table, place)
    for i, row in rows.items():
        if label := known_class(row.label, data.classes):
            labels[i], chosen[i] = data.classes.index(label), row.drawn is False
            first_label = part_of[i] == PARTS.index("unlabelled")
            if part := row.part or ("train" if first_label else None):
                part_of[i] = PARTS.index(part)
        elif row.label == NONE_OF_THESE:
            labels[i], part_of[i] = UNKNOWN, UNUSED
    parts = tuple(np.flatnonzero(part_of == p) for p in range(len(PARTS)))
    notes = (*data.notes, *notes_on(rows.values(), data.classes))
    return dataclasses.replace(
        data, labels=labels, parts=parts, notes=notes, chosen=np.flatnonzero(chosen)
    )


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
    """The line about each usable image, by its index; an error if one does not fit the data."""
    if not data.given_labels:
        raise UsageError(
            f"--labels adds labels to your own images, but {data.name} is already fully labelled. "
            "To set how many of its labels a run uses, give --labels-per-class."
        )
    images = {name: i for i, name in enumerate(data.files)}
    unusable = {name for name, _ in data.skipped}
    found: dict[int, Row] = {}
    for row in read_table(table, folder_of(place)):
        name, label = printable(row.name), known_class(row.label, data.classes)
        if name in unusable:
            continue
        if name not in images:
            base = posixpath.basename(name)  # the likeliest mistake is a name without its folder
            same = [file for file in data.files if posixpath.basename(file) == base][:NEAR]
            hint = f" Perhaps you meant {' or '.join(same)}." if same else ""
            raise DataError(
                f"{table}, line {row.line}: {data.name} has no image {name}.{hint} File names are "
                f"relative to {data.name}."
            )
        if label and label not in data.classes:
            raise DataError(
                f'{table}, line {row.line}: "{label}" is not a class of {data.name}.'
                f"{perhaps(label, data.classes, NEAR)} A new class needs its own folder; known "
                f"classes: {', '.join(data.classes)[:200]}."
            )
        refuse_contradiction(table, found.setdefault(images[name], row), row)
    return found


def folder_of(place: Path) -> str:
    """What the names of the images are relative to."""
    return os.fspath(place if place.is_dir() else place.parent)
