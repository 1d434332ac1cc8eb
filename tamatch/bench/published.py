"""The paper's and the benchmark's printed numbers, as `published.txt` has them.

`-` (no such run) and `N/A` (the benchmark could not run it) are kept apart.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Printed:
    """One cell of a printed table: error in percent, mean and standard deviation."""

    text: str
    mean: float | None = None
    std: float | None = None


Table = dict[str, dict[str, Printed]]  # by method, then by setting
Texts = dict[str, dict[str, str]]  # by row, then by column


def cell(text: str) -> Printed:
    """A printed `mean±std`, or the text alone where no number is printed."""
    mean, sign, std = text.partition("±")
    return Printed(text, float(mean), float(std)) if sign else Printed(text)


def texts(lines: str) -> Texts:
    """Lines of cells between bars; the first names the columns, a lone cell spans them all."""
    split = ([word.strip() for word in line.split("|")] for line in lines.strip().splitlines())
    (_, *columns), *rows = split
    spread = {name: cells * len(columns) if len(cells) == 1 else cells for name, *cells in rows}
    return {name: dict(zip(columns, cells, strict=True)) for name, cells in spread.items()}


def table(lines: Texts) -> Table:
    return {row: {c: cell(t) for c, t in cells.items()} for row, cells in lines.items()}


_PARTS = Path(__file__).with_name("published.txt").read_text("utf-8").split("# ")[1:]
_TITLED = (part.partition("\n") for part in _PARTS)
_PRINTED = {title.removeprefix("Table "): texts(lines) for title, _, lines in _TITLED}
TABLE_1, TABLE_3, TABLE_4, TABLE_5 = (table(_PRINTED[number]) for number in "1345")
CLASSIC = table(_PRINTED["USB classic"])  # its results/classic_cv.csv: WRN-28-2 from scratch
MINUTES = _PRINTED["EfficientMatch minutes"]  # its repository's, of three label draws
TABLE_2 = {  # Friedman rank, mean error
    method: tuple(map(float, row.values())) for method, row in _PRINTED["2"].items()
}
TABLE_3_NOTES = (
    'The paper calls its first row "Fully Supervised"; its values are the benchmark\'s for '
    "the labelled images only. 26.17 is a misprint for 36.17: the benchmark's accuracy is 63.83.",
    "The paper's FixMatch row is 100 minus the benchmark's accuracies, with the same deviations: "
    "copied, and scored at the best test.",
)
