"""How a person lays out images: class folders, train/val/test folders, or a table of labels."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DataError
from .decode import SUFFIXES
from .table import read_table

UNLABELLED = ("unlabelled", "unlabeled", "_unlabelled", "_unlabeled")
PART_FOLDERS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}
TABLES = ("labels.csv", "metadata.csv")
FOREIGN = (
    ".heic",
    ".heif",
    ".avif",
    ".jp2",
    ".jxl",
    ".psd",
    ".svg",
    ".cr2",
    ".nef",
    ".dng",
    ".arw",
)


@dataclass(frozen=True)
class Found:
    """One image file and what its place says of it."""

    path: Path
    part: str  # one of dataset.PARTS
    label: str | None


@dataclass
class Listing:
    """All images below a folder, in a fixed order, and what was left out."""

    root: Path
    images: list[Found] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)  # also of classes without an image
    skipped: list[tuple[str, str]] = field(default_factory=list)
    loose: int = 0  # images in no class folder
    unlisted: int = 0  # images that the table does not name
    other: int = 0  # files that are no images

    def name(self, path: Path) -> str:
        return printable(path.relative_to(self.root).as_posix())

    def notes(self) -> tuple[str, ...]:
        counted = (
            ("images in no class folder, left out", self.loose),
            ("images that the table of labels does not list, left out", self.unlisted),
            ("files that are no images, ignored", self.other),
        )
        return tuple(f"{what}: {count:,}" for what, count in counted if count)


def printable(name: str) -> str:
    """A file's name fit for any screen or file: control characters and stray bytes escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def list_images(place: Path) -> Listing:
    """Find the images of a folder, or those that a CSV file lists."""
    if place.is_file():
        listing = Listing(place.parent)
        _from_table(listing, place, "train")
        return listing
    listing = Listing(place)
    folders = _folders(place)
    parts = {PART_FOLDERS.get(f.name.lower()) for f in folders} - {None}
    others = [f for f in folders if f.name.lower() not in (*PART_FOLDERS, *UNLABELLED)]
    # a class may be called "train": only a folder with nothing but parts is split into parts
    if "train" in parts and not others:
        for folder in folders:
            if folder.name.lower() in UNLABELLED:
                _add(listing, folder, "unlabelled", None)
            else:
                _scan(listing, folder, PART_FOLDERS[folder.name.lower()])
    else:
        _scan(listing, place, "train")
    return listing


def _scan(listing: Listing, folder: Path, part: str) -> None:
    """One part: by its table where it has one, else by class folders."""
    for table in TABLES:
        if (folder / table).is_file():
            _from_table(listing, folder / table, part)
            return
    for child in _folders(folder):
        if child.name.lower() in UNLABELLED:
            _add(listing, child, "unlabelled" if part == "train" else part, None)
        else:
            _add(listing, child, part, printable(child.name))
    listing.loose += sum(1 for path in _files(listing, folder, deep=False) if _is_image(path))


def _add(listing: Listing, folder: Path, part: str, label: str | None) -> None:
    """All images below a folder, nested ones too."""
    if label is not None:
        listing.labels.add(label)
    for path in _files(listing, folder):
        _judge(listing, path, part, label)


def _judge(listing: Listing, path: Path, part: str, label: str | None) -> None:
    suffix = path.suffix.lower()
    if suffix in FOREIGN:
        reason = f"{suffix} files are not read: convert it to JPEG or PNG"
    elif suffix not in SUFFIXES:
        listing.other += 1
        return
    elif not os.path.isfile(path):
        reason = "not a file" if os.path.exists(path) else "a link to nothing"
    elif label is None and part != "unlabelled":
        reason = f"without a label it is of no use in the {part} part"
    else:
        listing.images.append(Found(path, part, label))
        return
    listing.skipped.append((listing.name(path), reason))


def _from_table(listing: Listing, table: Path, part: str) -> None:
    named: set[Path] = set()
    for name, label in read_table(table):
        path = table.parent / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            listing.skipped.append((printable(name), f"lies outside {table.parent}"))
            continue
        named.add(path)
        if label:
            listing.labels.add(printable(label))
        if not os.path.lexists(path):
            listing.skipped.append((listing.name(path), f"listed in {table.name} but not there"))
        elif path.suffix.lower() not in (*SUFFIXES, *FOREIGN):
            listing.skipped.append((listing.name(path), "no image by its name"))
        else:
            own = part if label or part != "train" else "unlabelled"
            _judge(listing, path, own, printable(label) if label else None)
    if named:
        below = _files(listing, table.parent)
        listing.unlisted += sum(1 for path in below if _is_image(path) and path not in named)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def _folders(folder: Path) -> list[Path]:
    try:
        return [path for path in _visible(folder) if os.path.isdir(path)]
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be read: {error.strerror}.") from None


def _files(listing: Listing, folder: Path, deep: bool = True) -> Iterator[Path]:
    """Visible files in order. Each real folder is entered once, so links in a circle end."""
    seen = {_identity(listing.root)} - {_identity(folder)}
    pending = [folder]
    while pending:
        path = pending.pop()
        if not os.path.isdir(path):
            yield path
        elif path == folder or deep:
            try:
                if (own := _identity(path)) not in seen:
                    seen.add(own)
                    pending += reversed(_visible(path))
            except OSError as error:
                listing.skipped.append((listing.name(path), f"folder: {error.strerror}"))


def _visible(folder: Path) -> list[Path]:
    names = sorted(os.listdir(folder))
    return [folder / name for name in names if not name.startswith((".", "__MACOSX"))]


def _identity(folder: Path) -> tuple[int, int]:
    state = folder.stat()
    return state.st_dev, state.st_ino
