"""How `tamatch check` puts counts and lists on a screen."""

from __future__ import annotations

from rich.cells import cell_len  # an emoji and a Chinese sign take two cells of a terminal

Counts = dict[str, dict[str, int]]  # of each part or role: images of each class, "" without label

SHOWN = 20  # items of a list that are printed; the JSON has all


def counted(number: int, one: str, more: str) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else more}"


def listed(items: list[str], what: str, *, one: str) -> list[str]:
    """How many there are, and the first of them; nothing if there are none."""
    if not items:
        return []
    more = [f"  … and {len(items) - SHOWN:,} more (--json lists all)"] if len(items) > SHOWN else []
    return [
        f"{counted(len(items), one, what)}:",
        *(f"  {item}" for item in items[:SHOWN]),
        *more,
    ]


def table(counts: Counts, classes: tuple[str, ...]) -> list[str]:
    """One line per class, one column per part; classes that are all alike share a line."""
    columns = [column for column, own in counts.items() if sum(own.values())]
    rows = [(c, [counts[column].get(c, 0) for column in columns]) for c in classes]
    if len(rows) > 1 and all(row == rows[0][1] for _, row in rows):
        rows = [("each class", rows[0][1])]
    without = [counts[column].get("", 0) for column in columns]
    if any(without):
        rows.append(("no label", without))
    rows.append(("total", [sum(counts[column].values()) for column in columns]))
    width = max(cell_len(name) for name, _ in rows)
    cells = [max(len(column), 10) for column in columns]
    head = " " * (width + 2) + "".join(
        f"  {column:>{cell}}" for column, cell in zip(columns, cells, strict=True)
    )
    return [head] + [
        f"  {name}{' ' * (width - cell_len(name))}"
        + "".join(f"  {count:>{cell},}" for count, cell in zip(row, cells, strict=True))
        for name, row in rows
    ]
