"""CSV files whose cells a spreadsheet shows as text: names come from files, files from anywhere."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..errors import DataError
from .files import write_bytes

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet evaluate a cell


def neutralise(cell: str) -> str:
    """Put an apostrophe before a cell that a spreadsheet would run as a formula.

    Cells that begin with an apostrophe get one too, so that `restore` is exact.
    """
    return "'" + cell if cell.startswith((*_FORMULA, "'")) else cell


def restore(cell: str) -> str:
    """Undo `neutralise`; a cell that was never neutralised stays as it is."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*_FORMULA, "'")) else cell


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A CSV file, every cell neutralised, written whole or not at all."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows([neutralise(cell) for cell in row] for row in rows)
    write_bytes(path, text.getvalue().encode())


def read_rows(path: Path, *columns: str) -> Iterator[dict[str, str]]:
    """These columns of a file that `write_table` wrote, every cell restored."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file, restval="")
            if missing := [name for name in columns if name not in (table.fieldnames or ())]:
                raise csv.Error(f"it has no column {missing[0]}")
            for row in table:
                yield {name: restore(row[name]) for name in columns}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} is not a table of a run: {reason}.") from None
