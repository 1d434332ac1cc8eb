"""Small pictures with a line below each, cut from one sheet that the page holds once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from markupsafe import Markup

from ..errors import DataError
from ..storage.spreadsheet import read_rows
from .picture import data_url
from .trust import Picture
from .words import percent, shortened

TILE = 64  # pixels
COLUMNS = 8
MOST = 32  # pictures on a sheet


@dataclass(frozen=True)
class Album:
    """A sheet of pictures; `figure` is empty where the run has none."""

    title: str
    figure: Markup


def album(title: str, name: str, pictures: Sequence[Picture], run: Path) -> Album:
    """The sheet RUN/pictures/NAME.jpg, cut into these pictures."""
    address = data_url(run / "pictures" / f"{name}.jpg")
    shown = pictures[:MOST]
    if address is None or not shown:
        return Album(title, Markup(""))
    rows = -(-len(shown) // COLUMNS)
    sheet = Markup(
        '<svg class="sheet" width="0" height="0" aria-hidden="true"><defs><image id="sheet-{}" '
        'width="{}" height="{}" href="{}"/></defs></svg>'
    ).format(name, COLUMNS * TILE, rows * TILE, address)
    items = Markup("").join(_item(name, place, one) for place, one in enumerate(shown))
    return Album(title, Markup('{}<ul class="album">{}</ul>').format(sheet, items))


def _item(name: str, place: int, picture: Picture) -> Markup:
    wrong = bool(picture.label) and picture.label != picture.predicted
    said = (
        [shortened(picture.label), f"→ {shortened(picture.predicted)}"]
        if wrong
        else [picture.predicted]
    )
    lines = Markup("").join(Markup('<span class="name">{}</span>').format(line) for line in said)
    return Markup(
        '<li><svg viewBox="{} {} {size} {size}" role="img" aria-label="{}"><title>{}</title>'
        '<use href="#sheet-{}"/></svg>{}<b>{}</b></li>'
    ).format(
        place % COLUMNS * TILE,
        place // COLUMNS * TILE,
        f"{picture.image}: {' '.join(said)}",
        picture.image,
        name,
        lines,
        percent(100 * picture.confidence, 0),
        size=TILE,
    )


def first_rows(path: Path) -> list[Picture]:
    """The first images of a table of predictions; empty if it is missing or broken."""
    rows = read_rows(path, "image", "label", "predicted", "confidence")
    try:
        return [
            Picture(row["image"], row["label"], row["predicted"], _share(row["confidence"]))
            for row in islice(rows, MOST)
        ]
    except DataError:
        return []


def _share(value: str) -> float:
    try:
        return min(max(float(value), 0.0), 1.0)
    except ValueError:
        return 0.0
