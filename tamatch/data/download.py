"""Fetch a named data set from its publisher, on request only."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.error import HTTPError

from ..errors import DataError, UsageError
from . import eurosat, stl10
from .archives import Archive, data_root, md5
from .cifar_versions import CIFAR10, CIFAR100
from .dataset import OnProgress

CHUNK = 1 << 20  # bytes read at once
TIMEOUT = 5  # seconds without an answer: without a network, say so soon
ARCHIVES: dict[str, Archive] = {
    "cifar10": CIFAR10.python.archive,
    "cifar10-lt": CIFAR10.python.archive,
    "cifar100": CIFAR100.python.archive,
    "stl10": stl10.ARCHIVE,
    "eurosat": eurosat.ARCHIVE,
}


def download(name: str, root: Path | None = None, progress: OnProgress | None = None) -> Path:
    """Put a data set's archive into the root folder, unless it is there and whole already.

    The file appears under its name only when its MD5 is the published one; `progress` is told
    bytes.
    """
    if name not in ARCHIVES:
        raise UsageError(f"--download supports only {', '.join(ARCHIVES)}; got {name}.")
    archive, folder = ARCHIVES[name], data_root(root)
    target = folder / archive.file
    if target.is_file() and md5(target) == archive.md5:
        return target
    part = folder / f".{archive.file}.{os.getpid()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            urllib.request.urlopen(archive.url, timeout=TIMEOUT) as answer,
            part.open("wb") as file,
        ):
            found = _copy(answer, file, int(answer.headers.get("Content-Length") or 0), progress)
        if found != archive.md5:
            raise DataError(
                f"the file downloaded from {archive.url} has the MD5 {found}, expected "
                f"{archive.md5}. It was deleted; try again later."
            )
        part.replace(target)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it is an open answer, too
        raise DataError(
            f"{archive.url} cannot be downloaded ({getattr(error, 'reason', None) or error}). "
            f"Download it (MD5 {archive.md5}) by other means and put it into {folder}."
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return target


def _copy(answer: IO[bytes], file: IO[bytes], total: int, progress: OnProgress | None) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    done = 0
    while chunk := answer.read(CHUNK):
        file.write(chunk)
        digest.update(chunk)
        done += len(chunk)
        if progress is not None:
            progress(done, max(total, done))
    return digest.hexdigest()
