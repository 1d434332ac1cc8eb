"""A table of labels: CSV with the columns file_name and label."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from ..storage.spreadsheet import restore

NAME = "file_name"
LABEL = "label"


class Row(NamedTuple):
    """One image of the table; an empty label means unlabelled."""

    name: str
    label: str
    line: int  # where it is named first


def read_table(path: Path) -> list[Row]:
    """The images that a table names, each once.

    Commas, semicolons and tabs separate; other columns are ignored. Apostrophes that protect a
    spreadsheet from formulas are taken off.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            heading = file.readline()
            file.seek(0)
            separator = max(",;\t", key=heading.count)
            rows = csv.DictReader(file, delimiter=separator, skipinitialspace=True)
            columns = {(name or "").strip().lower(): name for name in rows.fieldnames or ()}
            if NAME not in columns or LABEL not in columns:
                raise DataError(
                    f"{path} needs the columns {NAME} and {LABEL} in its first line, "
                    f"found {', '.join(columns) or 'nothing'}."
                )
            found: dict[str, Row] = {}
            for row in rows:
                name = restore((row[columns[NAME]] or "").strip())
                label = restore((row[columns[LABEL]] or "").strip())
                first = found.setdefault(name, Row(name, label, rows.line_num))
                if name and first.label != label:
                    raise DataError(
                        f'{path}, line {rows.line_num}: {name} is listed as "{label}" and as '
                        f'"{first.label}". Keep one of the two.'
                    )
            return [row for row in found.values() if row.name]
    except UnicodeDecodeError:
        raise DataError(f"{path} is not in UTF-8. Save it as CSV in UTF-8.") from None
    except (OSError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read as CSV: {reason}.") from None
