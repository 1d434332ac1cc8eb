"""The results folder: one JSON for each finished run, which several machines may fill."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from ..errors import DataError
from ..storage.files import read_json, write_bytes
from .cells import RECIPE, Cell, named_length
from .record import Curve, Result, Vectors

FIELDS = {record: get_type_hints(record) for record in (Result, Curve, Vectors)}


class UnknownField(Exception):
    """A file says more than this version understands."""


class Store:
    """Results by cell. A file appears whole or not at all, and its name is the cell's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Path, tuple[tuple[int, ...], Result]] = {}

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
            result = self._content(path)
        except UnknownField as field:
            raise DataError(
                f"{path} was written by a newer version of tamatch: this one does not know "
                f"{field}. Update tamatch to read it."
            ) from None
        except (ValueError, TypeError):
            raise DataError(f"{path} is damaged. Delete it to repeat the run.") from None
        said = (
            result.setting, result.method, result.variant, result.seed, result.scale, result.recipe
        )  # fmt: skip
        variant = cell.variant.name if cell.variant else None
        named = (cell.setting.name, cell.method_name, variant, cell.seed, str(cell.scale), RECIPE)
        if said != named:
            raise DataError(f"{path} contains the result of another run: {said}. Was it renamed?")
        return result

    def _content(self, path: Path) -> Result:
        """What a file holds; a page asks for it many times, so it is read when it is new."""
        there = path.stat()
        version = (there.st_ino, there.st_mtime_ns, there.st_size)
        if path not in self._known or self._known[path][0] != version:
            self._known[path] = version, parsed(read_json(path), Result)
        return self._known[path][1]

    def results(self, cells: Iterable[Cell]) -> dict[Cell, Result]:
        """The results there are. Cells of one plan have one recipe version and one scale."""
        return {cell: self.read(cell) for cell in cells if self.has(cell)}

    def of_other_code(self, cells: Iterable[Cell]) -> set[Path]:
        """Results of methods of the user's own that have the same name, but other code."""
        found: set[Path] = set()
        for cell in (cell for cell in cells if cell.code):
            of_any_code = self.path(replace(cell, code="*"))
            found |= {*of_any_code.parent.glob(of_any_code.name)}
        return found - {self.path(cell) for cell in cells}

    def other_scales(self, cells: Sequence[Cell]) -> dict[Fraction, int]:
        """How many of these cells are in with runs of another length, by their scale."""
        folders = {self.path(cell).parent for cell in cells}
        names = {path.name for folder in folders for path in folder.glob(f"*.*.r{RECIPE}.json")}
        lengths = (named_length(name.split(".")[-3]) for name in names)
        scales = sorted({s for s in lengths if s} - {cell.scale for cell in cells})
        found = {s: sum(self.has(replace(cell, scale=s)) for cell in cells) for s in scales}
        return {scale: count for scale, count in found.items() if count}


def parsed(value: Any, kind: Any) -> Any:
    """A value of JSON as what an annotation says; TypeError if it is anything else."""
    outer, inner = get_origin(kind), get_args(kind)
    if outer is UnionType:  # with None, as no field is of two kinds
        return None if value is None else parsed(value, inner[0])
    if not isinstance(value, accepted(outer or kind)):
        raise TypeError(f"{value!r} is no {kind}")
    if outer is list:
        return [parsed(item, inner[0]) for item in value]
    if kind in FIELDS:
        if unknown := sorted(value.keys() - FIELDS[kind].keys()):
            raise UnknownField(", ".join(unknown))
        return kind(**{name: parsed(inside, FIELDS[kind][name]) for name, inside in value.items()})
    return value


def accepted(kind: Any) -> Any:
    """How JSON holds a kind of value: a record by its fields, a number with or without a point."""
    if kind in FIELDS:
        return dict
    return int | float if kind is float else kind
