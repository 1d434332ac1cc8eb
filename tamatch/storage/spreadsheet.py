"""CSV cells that a spreadsheet shows as text: names come from files, and files from anywhere."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet evaluate a cell


def neutralise(cell: str) -> str:
    """Put an apostrophe before a cell that a spreadsheet would run as a formula.

    Cells that begin with an apostrophe get one too, so that `restore` is exact.
    """
    return "'" + cell if cell.startswith((*_FORMULA, "'")) else cell


def restore(cell: str) -> str:
    """Undo `neutralise`; a cell that was never neutralised stays as it is."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith((*_FORMULA, "'")) else cell
