"""Checkpoints: folders that appear whole and are never trusted without their checksum."""

import hashlib
import io
import os
import re
import shutil
from pathlib import Path
from typing import Any

import torch

from ..errors import DataError
from . import record
from .files import read_bytes, read_json, sync_folder, write_bytes, write_json, writing

KEPT = 2  # the newest may be damaged; then the one before it serves
NAME = re.compile(r"step_(\d{8,})")
PARTS = "state.pt", "manifest.json"


def save(folder: Path, step: int, state: dict[str, Any]) -> Path:
    """Write `folder`/step_…/ and delete all but this one and the one before it.

    Those of later steps are damaged, or the run would have continued from them. The folder is built
    under another name and renamed when complete; its manifest, written last, holds the SHA-256 of
    the state.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getvalue()
    final = folder / f"step_{step:08d}"
    building = folder / f".step_{step:08d}.{os.getpid()}.tmp"
    with writing(final):
        folder.mkdir(parents=True, exist_ok=True)
        for left_over in folder.glob(".step_*.tmp"):  # of a process that was killed while saving
            shutil.rmtree(left_over, ignore_errors=True)
        building.mkdir()
        try:
            write_bytes(building / "state.pt", content)
            digest = hashlib.sha256(content).hexdigest()
            manifest = {"step": step, "sha256": digest, "bytes": len(content)}
            write_json(building / "manifest.json", manifest)
            record.remove(folder, [f"{final.name}/{part}" for part in PARTS])  # a damaged one
            if final.exists():  # with files of the user's
                for part in PARTS:
                    (building / part).rename(final / part)
            else:
                building.rename(final)
            sync_folder(folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    saved = saved_in(folder)
    here = saved.index(final) + 1
    for other in (*saved[: max(0, here - KEPT)], *saved[here:]):
        record.remove(folder, [f"{other.name}/{part}" for part in PARTS])
    return final


def saved_in(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return []
    named = [(NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    found = sorted((int(match[1]), path) for match, path in named if match)
    return [path for _, path in found if any((path / part).exists() for part in PARTS)]


def load(path: Path) -> dict[str, Any]:
    """The state in one checkpoint; `DataError` if a single bit of it is not as written."""
    try:
        manifest = read_json(path / "manifest.json")
        content = read_bytes(path / "state.pt")
        if hashlib.sha256(content).hexdigest() != manifest["sha256"]:
            raise DataError(f"{path} is damaged: its checksum does not match.")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is damaged: {error}.") from None
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(content), "cpu", weights_only=True)
    except Exception:  # a sound checksum over something that is no state: refuse it all the same
        raise DataError(f"{path}/state.pt is not a saved training state.") from None
    return state


def newest(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """The newest sound state, and a message for each damaged one passed over."""
    damaged: list[str] = []
    for path in reversed(saved_in(folder)):
        try:
            return load(path), [f"{what} {path} is used instead." for what in damaged]
        except DataError as error:
            damaged.append(str(error))
    return None, [f"{what} The run starts over." for what in damaged]
