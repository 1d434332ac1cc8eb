"""Tables of names in CSV files, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..storage.files import write_bytes
from ..storage.spreadsheet import neutralise, restore

__all__ = ["neutralise", "restore", "write_table"]


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A CSV file, every cell neutralised, written whole or not at all."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows([neutralise(cell) for cell in row] for row in rows)
    write_bytes(path, text.getvalue().encode())
