"""The publishers' archives: download them on request, find them, verify them, read them."""

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
    unpack: str = ""  # the command, if it cannot be read as it is
    files: Mapping[str, str] = field(default_factory=dict)  # in it, by name: MD5, "" if unpublished

    @property
    def url(self) -> str:
        return self.page + self.file

    def advice(self, folder: Path) -> str:
        """Where to get it and where to put it."""
        return (
            f"Download {self.url} (MD5 {self.md5}) to {folder}, or run `tamatch check "
            f"{self.name} --root {shlex.quote(str(folder))} --download`."
            + (f" Then unpack it: {self.unpack}." if self.unpack else "")
        )


def published(
    name: str,
    page: str,
    file: str,
    *,
    folder: str = "",
    files: Mapping[str, str] | None = None,
    unpack: str = "",
) -> Archive:
    """An archive with the MD5s of itself and, unless other files are given, of those in it."""
    inside = {k.removeprefix(f"{folder}/"): v for k, v in MD5.items() if k.startswith(f"{folder}/")}
    return Archive(name, page, file, MD5[file], folder, unpack, files or inside)


PUBLISHED = Path(__file__).with_name("published.md5")  # with the lines of `md5sum`
LINES = (line.split() for line in PUBLISHED.read_text("utf-8").splitlines() if line[0] != "#")
MD5 = {file: md5 for md5, file in LINES}
CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/"
CIFAR10 = published("cifar10", CIFAR_PAGE, "cifar-10-python.tar.gz", folder="cifar-10-batches-py")
CIFAR10_BINARY = published(
    "cifar10", CIFAR_PAGE, "cifar-10-binary.tar.gz", folder="cifar-10-batches-bin",
    files=dict.fromkeys(
        (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin", "batches.meta.txt"), ""
    ),
)  # fmt: skip
CIFAR100 = published("cifar100", CIFAR_PAGE, "cifar-100-python.tar.gz", folder="cifar-100-python")
CIFAR100_BINARY = published(
    "cifar100", CIFAR_PAGE, "cifar-100-binary.tar.gz", folder="cifar-100-binary",
    files=dict.fromkeys(("train.bin", "test.bin", "fine_label_names.txt"), ""),
)  # fmt: skip
STL10_PAGE = "http://ai.stanford.edu/~acoates/stl10/"
STL10 = published("stl10", STL10_PAGE, "stl10_binary.tar.gz", folder="stl10_binary")
EUROSAT_PAGE = "https://zenodo.org/records/7711810/files/"
EUROSAT = published("eurosat", EUROSAT_PAGE, "EuroSAT_RGB.zip")
SVHN_PAGE = "http://ufldl.stanford.edu/housenumbers/"
SVHN = {
    part: published("svhn-extra" if part == "extra" else "svhn", SVHN_PAGE, f"{part}_32x32.mat")
    for part in ("train", "test", "extra")
}
FOOD101_PAGE = "http://data.vision.ee.ethz.ch/cvl/"
FOOD101 = published("food101", FOOD101_PAGE, "food-101.tar.gz", unpack="tar -xzf food-101.tar.gz")
MEDMNIST_PAGE = "https://zenodo.org/records/10519652/files/"
MEDMNIST_NAMES = [file.removesuffix(".npz") for file in MD5 if file.endswith("mnist.npz")]
MEDMNIST = {  # by name and side
    (name, side): published(name, MEDMNIST_PAGE, f"{name}{'' if side == 28 else f'_{side}'}.npz")
    for name in MEDMNIST_NAMES
    for side in (28, 64, 128, 224)
}
ARCHIVES: dict[str, tuple[Archive, ...]] = {
    "cifar10": (CIFAR10,), "cifar10-lt": (CIFAR10,), "cifar10-tuned": (CIFAR10,),
    "cifar100": (CIFAR100,), "cifar100-classic": (CIFAR100,),
    "stl10": (STL10,), "stl10-classic": (STL10,),
    "eurosat": (EUROSAT,), "eurosat-tuned": (EUROSAT,),
    "svhn": (SVHN["train"], SVHN["test"]), "svhn-extra": (*SVHN.values(),),
    "food101": (FOOD101,), **{name: (MEDMNIST[name, 28],) for name in MEDMNIST_NAMES},
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


def download(name: str, root: Path | None = None, progress: OnProgress | None = None) -> list[Path]:
    """Put a data set's archives into the root folder, unless they are there and whole already."""
    if name not in ARCHIVES:
        raise UsageError(
            f"--download cannot fetch {name}: docs/data.md lists the data sets that are public."
        )
    return [fetch(archive, data_root(root), progress) for archive in ARCHIVES[name]]


def fetch(archive: Archive, folder: Path, progress: OnProgress | None = None) -> Path:
    """Put an archive into this folder, unless it is there and whole already.

    The file appears under its name only when its MD5 is the published one; `progress` is told
    bytes.
    """
    import urllib.request  # only here: reading data needs no network code
    from http.client import HTTPException
    from urllib.error import HTTPError

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
