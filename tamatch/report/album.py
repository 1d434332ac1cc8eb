"""Pictures in a page: a file as a whole, or a sheet of small ones that the page holds once."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..storage.spreadsheet import read_rows
from .trust import Picture

if TYPE_CHECKING:  # a report is drawn without NumPy
    import numpy as np
    import numpy.typing as npt

TILE = 64  # pixels
COLUMNS = 8
MOST = 32  # pictures on a sheet
LARGEST = 600_000  # bytes; a larger picture is scaled down so that the page stays small
_WIDEST = 1000


def sheet(images: npt.NDArray[np.uint8]) -> bytes:
    """The first `MOST` of the images (n, H, W, 3) as a JPEG, row by row."""
    from PIL import Image

    shown = images[:MOST]
    rows = max(1, -(-len(shown) // COLUMNS))
    paper = Image.new("RGB", (COLUMNS * TILE, rows * TILE), "white")
    for i, pixels in enumerate(shown):
        how = Image.Resampling.NEAREST if pixels.shape[0] < TILE else Image.Resampling.LANCZOS
        tile = Image.fromarray(pixels).resize((TILE, TILE), how)
        paper.paste(tile, (i % COLUMNS * TILE, i // COLUMNS * TILE))
    file = BytesIO()
    paper.save(file, "JPEG", quality=88, optimize=True)
    return file.getvalue()


def album(name: str, pictures: Sequence[Picture], run: Path) -> dict[str, Any] | None:
    """The sheet RUN/pictures/NAME.jpg and the place of each picture on it; None without one."""
    address, shown = data_url(run / "pictures" / f"{name}.jpg"), pictures[:MOST]
    if address is None or not shown:
        return None
    rows = -(-len(shown) // COLUMNS)
    places = [(i % COLUMNS * TILE, i // COLUMNS * TILE, one) for i, one in enumerate(shown)]
    size = {"width": COLUMNS * TILE, "height": rows * TILE, "tile": TILE}
    return {"name": name, "address": address, **size, "pictures": places}


def first_rows(path: Path, share: str = "confidence") -> list[Picture]:
    """The first images of a table, with the figure in the column `share`; none if it is broken."""
    rows = read_rows(path, "image", "label", "predicted", share)
    try:
        return [
            Picture(row["image"], row["label"], row["predicted"], _share(row[share]))
            for row in islice(rows, MOST)
        ]
    except DataError:
        return []


def _share(value: str) -> float:
    try:
        return min(max(float(value), 0.0), 1.0)
    except ValueError:
        return 0.0


def data_url(path: Path) -> str | None:
    """The picture as a data: address; None if it is missing or no picture."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    for kind, mark in (("png", b"\x89PNG\r\n\x1a\n"), ("jpeg", b"\xff\xd8\xff")):
        if raw.startswith(mark) and len(raw) <= LARGEST:
            return f"data:image/{kind};base64," + base64.b64encode(raw).decode()
    return _scaled(raw)


def _scaled(raw: bytes) -> str | None:
    from PIL import Image

    try:
        with Image.open(BytesIO(raw), formats=["PNG", "JPEG"]) as image:
            small = image.convert("RGB")
    except (OSError, ValueError, Image.DecompressionBombError):
        return None
    small.thumbnail((_WIDEST, _WIDEST))
    out = BytesIO()
    small.save(out, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
