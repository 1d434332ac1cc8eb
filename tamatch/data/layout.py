"""How a person lays out images: class folders, train/val/test folders, or a table of labels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import combinations
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from .decode import SUFFIXES
from .table import read_table

LONGEST = max(map(len, SUFFIXES))
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
MANY = 100  # classes whose names are compared
ALIKE = 0.92  # "forest" and "forrest" are, "healthy" and "unhealthy" are not
FOREIGN = (".heic", ".heif", ".avif", ".jp2", ".jxl", ".psd", ".svg", ".cr2", ".nef", ".dng")


class Found(NamedTuple):
    """One image file and what its place says of it."""

    path: str
    part: str  # one of dataset.PARTS
    label: str | None


@dataclass
class Listing:
    """All images below a folder, in a fixed order, and what was left out."""

    root: str
    images: list[Found] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)  # also of classes without an image
    skipped: list[tuple[str, str]] = field(default_factory=list)
    loose: int = 0  # images in no class folder
    unlisted: int = 0  # images that the table does not name
    other: int = 0  # files that are no images

    def name(self, path: str) -> str:
        """The path below the root, fit for any screen."""
        below = path[len(self.root) :].lstrip(os.sep)
        return printable(below if os.sep == "/" else below.replace(os.sep, "/"))

    def notes(self) -> tuple[str, ...]:
        counted = (
            ("images in no class folder, left out", self.loose),
            ("images that the table of labels does not list, left out", self.unlisted),
            ("files that are no images, ignored", self.other),
        )
        told = [f"{what}: {count:,}" for what, count in counted if count]
        pairs = ", ".join(f'"{a}" and "{b}"' for a, b in nearly_equal(sorted(self.labels)))
        return (*told, f"classes with nearly the same name: {pairs}") if pairs else (*told,)


def printable(name: str) -> str:
    """A name that any screen and file can hold: control characters and stray bytes escaped."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def nearly_equal(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of names that differ by capitals or signs alone, or by a letter: likely a typing error.

    Names with digits are not compared letter by letter, nor those of so many classes.
    """
    plain = [re.sub(r"[\W_]", "", name.casefold()) for name in names]
    for (a, first), (b, second) in combinations(zip(names[:MANY], plain, strict=False), 2):
        letters = min(len(first), len(second)) >= 5 and (first + second).isalpha()
        alike = letters and SequenceMatcher(None, first, second).ratio() > ALIKE
        if alike or first == second != "":
            yield a, b


def list_images(place: Path) -> Listing:
    """Find the images of a folder, or those that a CSV file lists."""
    if place.is_file():
        listing = Listing(os.fspath(place.parent))
        _from_table(listing, os.fspath(place), "train")
        return listing
    listing = Listing(os.fspath(place))
    folders = [(name.lower(), path) for name, path in folders_in(listing.root)]
    names = {name for name, _ in folders}
    # a class may be called "train": only a folder with nothing but parts is split into parts
    if names & {"train", "training"} and names <= {*PART_FOLDERS, *UNLABELLED}:
        for name, path in folders:
            if name in UNLABELLED:
                _add(listing, path, "unlabelled", None)
            else:
                _scan(listing, path, PART_FOLDERS[name])
    else:
        _scan(listing, listing.root, "train")
    return listing


def _scan(listing: Listing, folder: str, part: str) -> None:
    """One part: by its table where it has one, else by class folders."""
    for table in TABLES:
        if os.path.isfile(path := os.path.join(folder, table)):
            _from_table(listing, path, part)
            return
    for name, path in folders_in(folder):
        if name.lower() in UNLABELLED:
            _add(listing, path, "unlabelled" if part == "train" else part, None)
        else:
            _add(listing, path, part, printable(name))
    listing.loose += sum(_is_image(path) for path, _ in _files(listing, folder, deep=False))


def _add(listing: Listing, folder: str, part: str, label: str | None) -> None:
    """All images below a folder, nested ones too."""
    if label is not None:
        listing.labels.add(label)
    for path, is_file in _files(listing, folder):
        _judge(listing, path, is_file, part, label)


def _judge(listing: Listing, path: str, is_file: bool, part: str, label: str | None) -> None:
    if not _is_image(path):
        if not path.lower().endswith(FOREIGN):
            listing.other += 1
            return
        reason = "its format is not read: convert it to JPEG or PNG"
    elif not is_file:
        reason = "not a file" if os.path.exists(path) else "a link to nothing"
    elif label is None and part != "unlabelled":
        reason = f"without a label it is of no use in the {part} part"
    else:
        listing.images.append(Found(path, part, label))
        return
    listing.skipped.append((listing.name(path), reason))


def _from_table(listing: Listing, table: str, part: str) -> None:
    folder, own_name = os.path.split(table)
    named: set[str] = set()
    for name, label, _ in read_table(Path(table)):
        path = os.path.join(folder, os.path.normpath(name))
        if os.path.isabs(name) or os.path.normpath(name).split(os.sep)[0] == os.pardir:
            listing.skipped.append((printable(name), f"lies outside {folder}"))
            continue
        named.add(path)
        if label:
            listing.labels.add(printable(label))
        if not os.path.lexists(path):
            listing.skipped.append((listing.name(path), f"listed in {own_name} but not there"))
        elif not path.lower().endswith((*SUFFIXES, *FOREIGN)):
            listing.skipped.append((listing.name(path), "no image by its name"))
        else:
            role = part if label or part != "train" else "unlabelled"
            _judge(listing, path, os.path.isfile(path), role, printable(label) or None)
    below = _files(listing, folder)
    listing.unlisted += sum(_is_image(path) and path not in named for path, _ in below)


def _is_image(path: str) -> bool:
    return path[-LONGEST:].lower().endswith(SUFFIXES)  # not all of a long path in small letters


def folders_in(folder: str) -> list[tuple[str, str]]:
    """(name, path) of the visible folders in a folder."""
    try:
        return [(entry.name, entry.path) for entry in _visible(folder) if _kind(entry) == "folder"]
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be read: {error.strerror}.") from None


def holds_images(folder: str) -> bool:
    """Does an image lie directly in this folder?"""
    try:
        return any(_is_image(entry.path) for entry in _visible(folder))
    except OSError:
        return False


def _files(listing: Listing, folder: str, deep: bool = True) -> Iterator[tuple[str, bool]]:
    """(path, is a regular file) of the visible files below a folder, in a fixed order.

    Each real folder is entered once, so that links in a circle end.
    """
    seen = set() if folder == listing.root else {_identity(listing.root)}
    pending = [folder]
    while pending:
        here = pending.pop()
        try:
            if (own := _identity(here)) in seen:
                continue
            seen.add(own)
            entries = _visible(here)
        except OSError as error:
            listing.skipped.append((listing.name(here), f"folder: {error.strerror}"))
            continue
        below: list[str] = []
        for entry in entries:
            kind = _kind(entry)
            if kind == "folder":
                below.append(entry.path)
            else:
                yield entry.path, kind == "file"
        if deep:
            pending += reversed(below)


def _visible(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        visible = [e for e in entries if not e.name.startswith((".", "__MACOSX"))]
    return sorted(visible, key=attrgetter("name"))


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        return "file" if entry.is_file() else "folder" if entry.is_dir() else "other"
    except OSError:  # a link that leads to itself
        return "other"


def _identity(folder: str) -> tuple[int, int]:
    state = os.stat(folder)
    return state.st_dev, state.st_ino
