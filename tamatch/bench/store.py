"""The results folder: one JSON for each finished run, which several machines may fill."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..storage.files import read_json, write_bytes
from .cells import RECIPE, Cell, named_length
from .curves import Curve, Vectors
from .record import Result

KINDS: dict[str, type[Curve] | type[Vectors]] = {
    **dict.fromkeys(("error", "utilization", "kl_truth", "kl_target", "r_max"), Curve),
    **dict.fromkeys(("largest_ratio", "weight", "max_weight"), Curve),
    **dict.fromkeys(("per_class", "p_model", "p_target"), Vectors),
}


class Store:
    """Results by cell. A file appears whole or not at all, and its name is the cell's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.name}.json"

    def has(self, cell: Cell) -> bool:
        return self.path(cell).exists()

    def write(self, cell: Cell, result: Result) -> None:
        fields = dataclasses.asdict(result).items()
        lines = [f"{json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in fields]
        write_bytes(self.path(cell), ("{" + ",\n ".join(lines) + "}\n").encode())

    def read(self, cell: Cell) -> Result:
        """The stored result; an error if the file is not what its name says."""
        path = self.path(cell)
        try:
            result = from_json(read_json(path))
        except (ValueError, TypeError, KeyError):
            raise DataError(f"{path} is damaged: delete it, and the run is made again.") from None
        said = (
            result.setting, result.method, result.variant, result.seed, result.scale, result.recipe
        )  # fmt: skip
        variant = cell.variant.name if cell.variant else None
        named = (cell.setting.name, cell.method, variant, cell.seed, str(cell.scale), RECIPE)
        if said != named:
            raise DataError(f"{path} holds the result of another run: {said}. Was it renamed?")
        return result

    def found(self, cells: Iterable[Cell]) -> dict[Cell, Result]:
        """The results there are. Cells of one plan have one recipe version and one scale."""
        return {cell: self.read(cell) for cell in cells if self.has(cell)}

    def other_scales(self, cells: Sequence[Cell]) -> dict[Fraction, int]:
        """How many of these cells are in with runs of another length, by their scale."""
        folders = {self.path(cell).parent for cell in cells}
        names = {path.name for folder in folders for path in folder.glob(f"*.*.r{RECIPE}.json")}
        lengths = (named_length(name.split(".")[-3]) for name in names)
        scales = sorted({s for s in lengths if s} - {cell.scale for cell in cells})
        found = {s: sum(self.has(replace(cell, scale=s)) for cell in cells) for s in scales}
        return {scale: count for scale, count in found.items() if count}


def from_json(content: dict[str, Any]) -> Result:
    fields: dict[str, Any] = {
        k: KINDS[k](**v) if k in KINDS and v is not None else v for k, v in content.items()
    }
    return Result(**fields)
