"""A table of labels: CSV with the columns file_name and label, and split where it has one."""

from __future__ import annotations

import csv
import os
import re
import unicodedata
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from ..storage.spreadsheet import original, printable, restore
from .partnames import PART_OF, UNLABELLED

NAME = "file_name"
PATH = "path"  # the same in the tables of `tamatch predict`
LABEL = "label"
SPLIT = "split"
# how programs write that there is nothing; "none" is not among them, a person may mean it
MISSING = ("nan", "NaN", "None", "null", "NULL", "<NA>")
FORMERLY = {"\\n": "\n", "\\r": "\r", "\\t": "\t"}  # how such characters of a name were written


class Row(NamedTuple):
    """One image of the table; an empty label means unlabelled."""

    name: str  # relative to the folder of the images, where it lies in it
    label: str
    part: str | None  # one of dataset.PARTS, if the table says so
    line: int  # where it is named first


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
                name, label, split = (
                    restore((cells[columns[c]] or "").strip()) if c in columns else ""
                    for c in (NAME, LABEL, SPLIT)
                )
                if name:
                    where = _below(images, name)
                    row = _row(path, where, original(label), split, rows.line_num)
                    refuse_contradiction(path, found.setdefault(row.name, row), row)
            return list(found.values())
    except UnicodeDecodeError:
        raise DataError(f"{path} is not encoded in UTF-8. Save it as CSV in UTF-8.") from None
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except (OSError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read as CSV: {reason}.") from None


def known_label(label: str, classes: Collection[str] = ()) -> str:
    """Empty if a program wrote that there is none; a class may have such a name."""
    return "" if label in MISSING and label not in classes else label


def notes_on(rows: Iterable[Row], classes: Collection[str] = ()) -> tuple[str, ...]:
    """What the user should know of these labels."""
    missing = [row.label for row in rows if row.label != known_label(row.label, classes)]
    said = " or ".join(f'"{label}"' for label in sorted({*missing}))
    return (
        (f"images with the label {said}, treated as unlabelled: {len(missing):,}",)
        if missing
        else ()
    )


def _row(path: Path, name: str, label: str, split: str, line: int) -> Row:
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
