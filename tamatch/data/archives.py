"""The publishers' archives: download them on request, find them, verify them, read them."""

from __future__ import annotations

import hashlib
import os
import shlex
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from ..errors import DataError, UsageError
from .dataset import OnProgress

CHUNK = 1 << 20  # bytes read at once
TIMEOUT = 5  # seconds without an answer: without a network, say so soon


@dataclass(frozen=True)
class Archive:
    """One download of a publisher."""

    name: str  # of the data set
    page: str
    file: str
    md5: str
    folder: str = ""  # that it unpacks to
    files: Mapping[str, str] = field(default_factory=dict)  # in it, by name: MD5, "" if unpublished

    @property
    def url(self) -> str:
        return self.page + self.file

    def advice(self, folder: Path) -> str:
        """Where to get it and where to put it."""
        return (
            f"Download {self.url} (MD5 {self.md5}) to {folder}, or run `tamatch check "
            f"{self.name} --root {shlex.quote(str(folder))} --download`."
        )


CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/"
STL10_PAGE = "http://ai.stanford.edu/~acoates/stl10/"
EUROSAT_PAGE = "https://zenodo.org/records/7711810/files/"
CIFAR10 = Archive(
    "cifar10", CIFAR_PAGE, "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"
)
CIFAR100 = Archive(
    "cifar100", CIFAR_PAGE, "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"
)
STL10 = Archive("stl10", STL10_PAGE, "stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb")
EUROSAT = Archive("eurosat", EUROSAT_PAGE, "EuroSAT_RGB.zip", "f46e308c4d50d4bf32fedad2d3d62f3b")
ARCHIVES = {
    "cifar10": CIFAR10, "cifar10-lt": CIFAR10, "cifar100": CIFAR100, "stl10": STL10,
    "eurosat": EUROSAT,
}  # fmt: skip


def data_root(root: Path | None) -> Path:
    """Where named data sets lie: the given folder, $TAMATCH_DATA, or ./data."""
    folder = root if root is not None else Path(os.environ.get("TAMATCH_DATA") or "data")
    return folder.absolute()


def locate(root: Path | None, candidates: Sequence[str], archive: Archive) -> Path:
    """The first of these that is the root, or lies in it or in its folder named like the set."""
    folder = data_root(root)
    for candidate in candidates:
        if folder.name == candidate and folder.is_dir():
            return folder
        for path in (folder / candidate, folder / archive.name / candidate):
            if path.exists():
                return path
    raise DataError(
        f"{archive.name} not found in {folder} (looked for {', '.join(candidates)}). "
        + archive.advice(folder)
    )


def md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.md5, usedforsecurity=False)).hexdigest()


def verify(path: Path, expected: Sequence[str], archive: Archive) -> None:
    """Compare a file with its published MD5, if there is one; raise an error if it differs."""
    if not path.is_file():
        raise DataError(f"{path} is missing. " + archive.advice(path.parent))
    if expected and (found := md5(path)) not in expected:
        raise DataError(
            f"{path} is not the published file: its MD5 is {found}, expected "
            f"{' or '.join(expected)}. Delete it. " + archive.advice(path.parent)
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


def download(name: str, root: Path | None = None, progress: OnProgress | None = None) -> Path:
    """Put a data set's archive into the root folder, unless it is there and whole already.

    The file appears under its name only when its MD5 is the published one; `progress` is told
    bytes.
    """
    import urllib.request  # only here: reading data needs no network code
    from http.client import HTTPException
    from urllib.error import HTTPError

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
            total, done = int(answer.headers.get("Content-Length") or 0), 0
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, max(total, done))
        if (found := md5(part)) != archive.md5:
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
