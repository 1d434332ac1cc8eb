"""CSV files whose cells a spreadsheet shows as text: names come from files, files from anywhere."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..errors import DataError
from .files import write_bytes

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet evaluate a cell
# what `printable` writes: a backslash, or the number of a character
_ESCAPED = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U(000[0-9a-f]{5}|0010[0-9a-f]{4}))")


def printable(name: str) -> str:
    """A name that any screen and file can hold; `original` is its inverse.

    Control characters, stray bytes and outer spaces become numbers such as \\x0a. A backslash
    stays, unless it could then be taken for the beginning of such a number: it becomes two.
    """
    if name.isprintable() and name == name.strip() and original(name) == name:
        return name
    inner = range(len(name) - len(name.lstrip(" ")), len(name.rstrip(" ")))
    return "".join(
        "\\\\" if c == "\\" else c if c.isprintable() and i in inner else _number(c)
        for i, c in enumerate(name)
    )


def original(shown: str) -> str:
    """The name that `printable` shows like this."""
    return _ESCAPED.sub(_character, shown)


def _number(character: str) -> str:
    code = ord(character)
    kind, digits = ("x", 2) if code < 0x100 else ("u", 4) if code < 0x10000 else ("U", 8)
    return f"\\{kind}{code:0{digits}x}"


def _character(found: re.Match[str]) -> str:
    digits = next(filter(None, found.groups()), None)
    character = "\\" if digits is None else chr(int(digits, 16))
    return character if character in "\\ " or not character.isprintable() else found[0]


def neutralise(cell: str) -> str:
    """Put an apostrophe before a cell that a spreadsheet would run as a formula.

    Cells that begin with an apostrophe get one too, so that `restore` is exact.
    """
    return "'" + cell if cell.startswith((*_FORMULA, "'")) else cell


def restore(cell: str) -> str:
    """Undo `neutralise`; a cell that was never neutralised stays as it is."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*_FORMULA, "'")) else cell


def table_bytes(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """The content of a CSV file, every cell neutralised."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    table.writerows([neutralise(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A CSV file, written whole or not at all."""
    write_bytes(path, table_bytes(header, rows))


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
