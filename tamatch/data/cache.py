"""A folder of decoded images: built once, complete or absent, checked whenever it is opened."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ..errors import DataError
from ..storage.files import read_json
from .dataset import Digests, Pixels
from .pixelfile import PixelFile

PIXELS = "pixels.npy"
DIGESTS = "digests.npy"
MANIFEST = "manifest.json"
UNFINISHED = "building-"
STALE = 24 * 3600  # seconds after which an unfinished entry belongs to a process that died

Facts = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """What the cache holds under one key; `build` may have put more files into its folder."""

    folder: Path
    images: Pixels  # a memory map
    digests: Digests
    facts: Facts


def cache_folder() -> Path:
    """$TAMATCH_CACHE, or the user's cache folder. It may be deleted at any time."""
    own = os.environ.get("TAMATCH_CACHE")
    if own:
        return Path(own)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tamatch"
    except RuntimeError:  # as in a container whose user is a mere number
        raise DataError(
            "there is no place for the image cache, as this user has no home folder. Set "
            "TAMATCH_CACHE to a folder."
        ) from None


def open_or_build(key: str, size: int, build: Callable[[Path], Facts]) -> Entry:
    """The entry `key`; if there is none, or it was damaged since, `build` writes its files.

    These are at least the pixels and the digest of each image, and the same whoever builds them. A
    new entry appears by one rename: other processes see all of it or nothing.
    """
    folder = cache_folder()
    place = folder / key
    facts = _read(place, size)
    if facts is None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _sweep(folder)
            # not by mkdtemp, whose folders other users of a common cache cannot read
            working = folder / f"{UNFINISHED}{uuid4().hex}"
            working.mkdir()
            try:
                facts = build(working)
                _write_manifest(working, facts)
                _publish(working, place, size)
            finally:
                shutil.rmtree(working, ignore_errors=True)
        except OSError as error:
            raise DataError(
                f"the image cache {folder} cannot be written: {error.strerror or error}. Free some "
                "space, or set TAMATCH_CACHE to another folder."
            ) from error
    images = PixelFile(place / PIXELS, size).open()
    return Entry(place, images, np.load(place / DIGESTS), facts)


def _read(place: Path, size: int) -> Facts | None:
    """The facts of an entry, or None if it is absent, unreadable or not as it was written."""
    try:
        manifest = read_json(place / MANIFEST)
        if any(_sha256(place / name) != digest for name, digest in manifest["files"].items()):
            return None
        if not PixelFile(place / PIXELS, size).intact(np.load(place / DIGESTS)):
            return None
        facts: Facts = manifest["facts"]
        return facts
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_manifest(folder: Path, facts: Facts) -> None:
    """The SHA-256 of every file but the pixels, which their digests vouch for."""
    files = {path.name: _sha256(path) for path in sorted(folder.iterdir()) if path.name != PIXELS}
    with (folder / MANIFEST).open("w", encoding="utf-8") as file:
        json.dump({"files": files, "facts": facts}, file)


def _publish(working: Path, place: Path, size: int) -> None:
    try:
        working.rename(place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if _read(place, size) is None:  # else another process was faster
            _replace(working, place)


def _replace(working: Path, place: Path) -> None:
    """Put whole files over those of a damaged entry, one by one.

    Others may do the same just now, with the same content, or read: at every moment each file is
    there, and once a good one is, it stays good. A folder cannot be replaced like that.
    """
    for path in sorted(working.iterdir()):
        path.replace(place / path.name)


def _sweep(folder: Path) -> None:
    """Remove what killed processes left behind."""
    for path in folder.glob(UNFINISHED + "*"):
        with suppress(OSError):  # its process has finished it just now, or it is another user's
            written = max(there.stat().st_mtime for there in (path, *path.iterdir()))
            if time.time() - written > STALE:
                shutil.rmtree(path, ignore_errors=True)
