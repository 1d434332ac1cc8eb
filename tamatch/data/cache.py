"""A folder of decoded images: built once, complete or absent, checked whenever it is opened."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import DataError

MANIFEST = "manifest.json"
UNFINISHED = "building-"
STALE = 24 * 3600  # seconds after which an unfinished entry belongs to a process that died

Facts = dict[str, Any]


def cache_folder() -> Path:
    """$TAMATCH_CACHE, or the user's cache folder. It may be deleted at any time."""
    own = os.environ.get("TAMATCH_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tamatch"


def open_or_build(key: str, build: Callable[[Path], Facts]) -> tuple[Path, Facts]:
    """The folder of the entry `key` and its facts; `build` writes its files if there is none.

    The manifest holds the SHA-256 of every file, so an entry that was damaged since is built
    again. A new entry appears by one rename: other processes see all of it or nothing.
    """
    folder = cache_folder()
    entry = folder / key
    facts = _read(entry)
    if facts is not None:
        return entry, facts
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        working = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
        try:
            facts = build(working)
            _write_manifest(working, facts)
            _publish(working, entry)
        finally:
            shutil.rmtree(working, ignore_errors=True)
    except OSError as error:
        raise DataError(
            f"the image cache {folder} cannot be written: {error.strerror or error}. "
            "Make room, or set TAMATCH_CACHE to another folder."
        ) from error
    return entry, facts


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(entry: Path) -> Facts | None:
    """The facts of an entry, or None if it is absent, unreadable or not as it was written."""
    try:
        manifest = json.loads((entry / MANIFEST).read_text("utf-8"))
        for name, digest in manifest["files"].items():
            if sha256(entry / name) != digest:
                return None
        facts: Facts = manifest["facts"]
        return facts
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write_manifest(folder: Path, facts: Facts) -> None:
    files = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    with (folder / MANIFEST).open("w", encoding="utf-8") as file:
        json.dump({"files": files, "facts": facts}, file)
        file.flush()
        os.fsync(file.fileno())


def _publish(working: Path, entry: Path) -> None:
    try:
        working.rename(entry)
    except OSError:
        if _read(entry) is not None:
            return  # another process was faster
        shutil.rmtree(entry)
        working.rename(entry)


def _sweep(folder: Path) -> None:
    """Remove what killed processes left behind."""
    for path in folder.glob(UNFINISHED + "*"):
        if time.time() - path.stat().st_mtime > STALE:
            shutil.rmtree(path, ignore_errors=True)
