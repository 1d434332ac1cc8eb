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
SVHN_PAGE = "http://ufldl.stanford.edu/housenumbers/"
SVHN = {  # the MD5s of this and of Food-101 are those that torchvision compares
    part: Archive("svhn-extra" if part == "extra" else "svhn", SVHN_PAGE, f"{part}_32x32.mat", md5)
    for part, md5 in {
        "train": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test": "eb5a983be6a315427106f1b164d9cef3",
        "extra": "a93ce644f1a588dc4d68dda5feec44a7",
    }.items()
}
FOOD101 = Archive(
    "food101", "http://data.vision.ee.ethz.ch/cvl/", "food-101.tar.gz",
    "85eeb15f3717b99a5da872d97d918f87", unpack="tar -xzf food-101.tar.gz",
)  # fmt: skip
MEDMNIST_PAGE = "https://zenodo.org/records/10519652/files/"
MEDMNIST_MD5 = {  # as medmnist 3.0.2 lists them: 28, 64, 128 and 224 pixels
    "pathmnist": "a8b06965200029087d5bd730944a56c1 55aa9c1e0525abe5a6b9d8343a507616 "
    "ac42d08fb904d92c244187169d1fd1d9 2c51a510bcdc9cf8ddb2af93af1eadec",
    "dermamnist": "0744692d530f8e62ec473284d019b0c7 b70a2f5635c6199aeaa28c31d7202e1f "
    "2defd784463fa5243564e855ed717de1 8974907d8e169bef5f5b96bc506ae45d",
    "octmnist": "c68d92d5b585d8d81f7112f81e2d0842 e229e9440236b774d9f0dfef9d07bdaf "
    "0a97e76651ace45c5d943ee3f65b63ae abc493b6d529d5de7569faaef2773ba3",
    "pneumoniamnist": "28209eda62fecd6e6a2d98b1501bb15f 8f4eceb4ccffa70c672198ea285246c6 "
    "05b46931834c231683c68f40c47b2971 d6a3c71de1b945ea11211b03746c1fe1",
    "retinamnist": "bd4c0672f1bba3e3a89f0e4e876791e4 afda852cc34dcda56f86ad2b2457dbcc "
    "e48e916a24454daf90583d4e6efb1a18 eae7e3b6f3fcbda4ae613ebdcbe35348",
    "breastmnist": "750601b1f35ba3300ea97c75c52ff8f6 742edef2a1fd1524b2efff4bd7ba9364 "
    "363e4b3f8d712e9b5de15470a2aaadf1 b56378a6eefa9fed602bb16d192d4c8b",
    "bloodmnist": "7053d0359d879ad8a5505303e11de1dc 2b94928a2ae4916078ca51e05b6b800b "
    "adace1e0ed228fccda1f39692059dd4c b718ff6835fcbdb22ba9eacccd7b2601",
    "tissuemnist": "ebe78ee8b05294063de985d821c1c34b 123ece2eba09d0aa5d698fda57103344 "
    "61b955355d7425a89687b06cca3ce0c2 b077128c4a949f0a4eb01517f9037b9c",
    "organamnist": "68e3f8846a6bd62f0c9bf841c0d9eacc 2dcccc29b88e6da5a01161ef20cda288 "
    "eeae80d0a227a8d099027e1b3cfd3b60 50747347e05c87dd3aaf92c49f9f3170",
    "organcmnist": "b9ceb9546e10131b32923c5bbeaea2b1 3ce34a8724ea6f548e6db4744d03b6a9 "
    "773c1f009daa3fe5d9a2a201b2a7ed94 050f5e875dc056f6768abf94ec9995d1",
    "organsmnist": "9ab87b696fb54e2a387ebe992d6ed5f1 53a6d115339d874c25e309a994ff46d3 "
    "ded0c5fa01a95dc4978b956f613e9b8e b354719e553fbbb2513d5533f52a4cb1",
}
MEDMNIST = {  # by name and side
    (name, side): Archive(name, MEDMNIST_PAGE, f"{name}{'' if side == 28 else f'_{side}'}.npz", md5)
    for name, md5s in MEDMNIST_MD5.items()
    for side, md5 in zip((28, 64, 128, 224), md5s.split(), strict=True)
}
ARCHIVES: dict[str, tuple[Archive, ...]] = {
    "cifar10": (CIFAR10,), "cifar10-lt": (CIFAR10,), "cifar10-tuned": (CIFAR10,),
    "cifar100": (CIFAR100,), "cifar100-classic": (CIFAR100,),
    "stl10": (STL10,), "stl10-classic": (STL10,),
    "eurosat": (EUROSAT,), "eurosat-tuned": (EUROSAT,),
    "svhn": (SVHN["train"], SVHN["test"]), "svhn-extra": (*SVHN.values(),),
    "food101": (FOOD101,), **{name: (MEDMNIST[name, 28],) for name in MEDMNIST_MD5},
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
