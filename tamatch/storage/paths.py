"""Paths that a user gives: text or a `Path`, and never one where something would be lost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError


def path_of(value: Any, what: str) -> Path:
    """A value as a path; `what` begins the error message: "out takes a folder"."""
    if isinstance(value, str | os.PathLike) and os.fspath(value):
        return Path(value)
    got = repr(value) if value is None or isinstance(value, str) else type(value).__name__
    hint = " Perhaps you meant its path." if hasattr(value, "path") else ""
    raise UsageError(f"{what}, as a str or Path; got {got}.{hint}")


def config_path(value: Any) -> Path | None:
    """The file of options, where there is one."""
    if isinstance(value, Mapping):
        raise UsageError(
            "config takes a YAML file. Pass options in a dict as keywords: train(**options)."
        )
    return None if value is None else path_of(value, "config takes a YAML file")


def refuse_existing(place: Path, *, is_folder: bool, overwrite: bool) -> None:
    """Never lose an older file unasked."""
    if place.exists() and place.is_dir() != is_folder:
        found, wanted = ("folder", "file") if place.is_dir() else ("file", "folder")
        raise UsageError(f"--out {place} is a {found}; give a {wanted}.")
    taken = any(place.iterdir()) if place.is_dir() else place.exists()
    if taken and not overwrite:
        raise UsageError(f"{place} already exists. Choose a different --out, or use --overwrite.")
