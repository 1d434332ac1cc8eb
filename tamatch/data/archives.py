"""The publishers' files: where they come from, whether they are there and whole."""

from __future__ import annotations

import hashlib
import os
import shlex
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from ..errors import DataError


@dataclass(frozen=True)
class Archive:
    """One download of a publisher."""

    name: str  # of the data set
    file: str
    md5: str
    url: str


def data_root(root: Path | None) -> Path:
    """Where named data sets lie: the given folder, $TAMATCH_DATA, or ./data."""
    folder = root if root is not None else Path(os.environ.get("TAMATCH_DATA") or "data")
    return folder.absolute()


def locate(root: Path | None, name: str, candidates: Sequence[str], archive: Archive) -> Path:
    """The first of these that is the root itself, or lies in it or in its folder `name`."""
    folder = data_root(root)
    for candidate in candidates:
        if folder.name == candidate and folder.is_dir():
            return folder
        for path in (folder / candidate, folder / name / candidate):
            if path.exists():
                return path
    raise DataError(
        f"{name} not found in {folder} (looked for {', '.join(candidates)}). "
        + download_advice(archive, folder)
    )


def download_advice(archive: Archive, folder: Path) -> str:
    """Where to get an archive and where to put it."""
    return (
        f"Download {archive.url} (MD5 {archive.md5}) to {folder}, or run `tamatch check "
        f"{archive.name} --root {shlex.quote(str(folder))} --download`."
    )


def md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def verify(path: Path, expected: Sequence[str], archive: Archive) -> None:
    """Compare a file with its published MD5; a file that differs is never read further."""
    if not path.is_file():
        raise DataError(f"{path} is missing. " + download_advice(archive, path.parent))
    found = md5(path)
    if found not in expected:
        raise DataError(
            f"{path} is not the published file: its MD5 is {found}, expected "
            f"{' or '.join(expected)}. Delete it. " + download_advice(archive, path.parent)
        )


def members(path: Path, wanted: Sequence[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """The wanted files of a folder or tar archive, each as (base name, open file), in any order.

    Nothing is unpacked to disk; an archive is read once from front to back.
    """
    if path.is_dir():
        for name in wanted:
            with (path / name).open("rb") as file:
                yield name, file
        return
    missing = set(wanted)
    with tarfile.open(path, "r:*") as tar:
        for member in tar:
            name = member.name.rsplit("/", 1)[-1]
            if name in missing and (content := tar.extractfile(member)) is not None:
                missing.remove(name)
                yield name, content
    if missing:
        raise DataError(
            f"{path} is incomplete: {', '.join(sorted(missing))} not found in it. Download it "
            "again."
        )
