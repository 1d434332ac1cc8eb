"""Two models on the same held-out images: the difference of their errors, image by image."""

from __future__ import annotations

from pathlib import Path

from ..errors import DataError
from ..judge.differences import Paired, paired
from ..storage.spreadsheet import read_rows


def compared(run: Path, other: Path, part: str) -> Paired | None:
    """Compare two tables of predictions; None where there are none of the same images."""
    ours, theirs = (_right(path / "predictions" / f"{part}.csv") for path in (run, other))
    if not ours or ours.keys() != theirs.keys():
        return None
    gains = [ours[image] - theirs[image] for image in ours]
    return paired(gains.count(1), gains.count(-1), len(gains))


def _right(table: Path) -> dict[str, int]:
    """Of each image, whether it was predicted right; empty if the table cannot be read."""
    try:
        rows = read_rows(table, "image", "label", "predicted")
        return {row["image"]: int(row["label"] == row["predicted"]) for row in rows}
    except DataError:
        return {}
