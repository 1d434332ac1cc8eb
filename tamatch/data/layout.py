"""How a person lays out images: class folders, train/val/test folders, or a table of labels."""

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from itertools import combinations
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from ..storage.spreadsheet import printable
from .dataset import OnProgress
from .decode import FOREIGN, NOT_READ, SUFFIXES
from .labels import (
    NONE_OF_THESE,
    PART_NAMES,
    PART_OF,
    TABLES,
    UNLABELLED,
    class_name,
    known_class,
    notes_on,
    read_table,
)

LONGEST = max(map(len, SUFFIXES))
SHOWN = 100  # characters of a list of folders
BELONG = "images without a label belong in unlabelled"
ROUND = "a link to a folder that contains it or was read before"
NEWS = 1000  # files that are looked at between two signs of progress
TELLING = ("unlabelled", "unlabeled", "validation", "val", "test")  # "train" may be a class
MANY = 100  # classes whose names are compared
ALIKE = 0.92  # "forest" and "forrest" are, "healthy" and "unhealthy" are not
UNLISTED = "images that the table of labels does not list"


class Found(NamedTuple):
    """One image file and what its place says about it."""

    path: str
    part: str | None  # one of dataset.PARTS; None: a person has seen that it is of no class
    label: str | None
    chosen: bool = False  # labelled because it tells much, so that it is no fair sample


@dataclass
class Listing:
    """All images below a folder, in a fixed order, and what was left out."""

    root: str
    progress: OnProgress | None = None  # told how many files were looked at
    images: list[Found] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)  # also of classes without an image
    class_folders: set[str] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)  # on what the tables say
    skipped: list[tuple[str, str]] = field(default_factory=list)
    loose: int = 0  # images in no class folder
    pooled: int = 0  # images that the table does not name, in the training part
    unlisted: int = 0  # such images elsewhere
    other: int = 0  # files that are no images
    elsewhere: int = 0  # links to folders outside, whose images are read
    seen: int = 0  # files and folders so far

    @cached_property
    def above(self) -> set[tuple[int, int]]:
        """The root and all folders that contain it: a link to one of them leads in a circle."""
        return {identity(self.root), *identities_above(self.root)}

    def name(self, path: str) -> str:
        """The path below the root, fit for any screen."""
        return printable(path[len(self.root) :].lstrip("/"))

    def notes(self) -> tuple[str, ...]:
        counted = (
            (f"images outside any class folder, left out ({BELONG})", self.loose),
            (f"{UNLISTED}, used without a label", self.pooled),
            (f"{UNLISTED}, left out (to use them, list them; a label may be empty)", self.unlisted),
            ("files that are not images, ignored", self.other),
            (f"links to folders outside {self.root}, followed", self.elsewhere),
        )
        told = [*self.remarks, *(f"{what}: {count:,}" for what, count in counted if count)]
        pairs = combinations(sorted(self.labels)[:MANY], 2)
        if similar := ", ".join(f'"{a}" and "{b}"' for a, b in pairs if alike(a, b)):
            told.append(f"classes with nearly the same name: {similar}")
        if doubtful := ", ".join(f'"{n}"' for n in sorted(self.class_folders) if like_a_part(n)):
            told.append(
                f"classes that are named like a part of the data: {doubtful}. If that is not a "
                "class: put images without a label into unlabelled, and call a part train, val or "
                "test, with a folder for each class in it"
            )
        return (*told,)


def alike(first: str, second: str) -> bool:
    """Do two names differ by capitals or signs alone, or by a letter? Likely a typing error.

    Names with digits are not compared letter by letter.
    """
    first, second = (re.sub(r"[\W_]", "", name.casefold()) for name in (first, second))
    if first == second:
        return first != ""
    letters = min(len(first), len(second)) >= 5 and (first + second).isalpha()
    return letters and SequenceMatcher(None, first, second).ratio() > ALIKE


def like_a_part(name: str) -> bool:
    """Is this the name of a part, nearly so, or such a word among others ("test images")?"""
    words = re.split(r"[\W\d_]+", name)
    return any(alike(name, part) for part in PART_OF) or any(
        alike(word, part) for word in words for part in TELLING
    )


def list_images(place: Path, progress: OnProgress | None = None, *, loose: bool = False) -> Listing:
    """Find the images of a folder, or those that a CSV file lists.

    With `loose`, images that lie in no class folder are unlabelled ones, else they are left out.
    """
    if place.is_file():
        listing = Listing(os.fspath(place.parent), progress)
        _from_table(listing, place, None, alone=True)
    else:
        listing = Listing(os.fspath(place), progress)
        _scan(listing, listing.root, "train", loose=loose)
    return listing


def table_of(place: Path | str) -> Path | None:
    """The table that lists the images of a place: this itself, or one in the folder."""
    paths = (os.fspath(place), *(os.path.join(place, table) for table in TABLES))
    return next((Path(path) for path in paths if os.path.isfile(path)), None)


def _scan(listing: Listing, folder: str, part: str, *, loose: bool = False) -> None:
    """The whole folder, or one part: by its table where it has one, else by class folders."""
    whole = folder == listing.root
    if not whole and identity(folder) in listing.above:
        listing.skipped.append((listing.name(folder), ROUND))
        return
    if table := table_of(folder):
        _from_table(listing, table, None if whole else part)
        return
    parts = _parts_in(folder) if whole else {}
    for name, path in folders_in(folder):
        if name in parts:
            _scan(listing, path, parts[name])
            continue
        label = None if name.lower() in UNLABELLED else class_name(name)
        role = "unlabelled" if label is None and part == "train" else part
        if label is not None:
            listing.class_folders.add(label)
            listing.labels.add(label)
        for file, is_file in _files(listing, path):
            _judge(listing, file, is_file, role, label)
    for file, is_file in _files(listing, folder, deep=False):
        if loose:
            _judge(listing, file, is_file, "unlabelled", None)
        else:
            listing.loose += _is_image(file)


def _parts_in(folder: str) -> dict[str, str]:
    """Which folders are parts, and not classes: a class, too, may be called "train".

    They are if there are no others, and else by what is in them: a table, or folders that are
    named like the classes beside them.
    """
    folders = {name: path for name, path in folders_in(folder) if name.lower() not in UNLABELLED}
    named = {name: PART_NAMES[name.lower()] for name in folders if name.lower() in PART_NAMES}
    others = folders.keys() - named.keys()
    if not others:
        return named
    classes = {name.casefold() for name in others}
    parts = {
        name: part
        for name, part in named.items()
        if table_of(folders[name])
        or any(inner.casefold() in classes for inner, _ in folders_in(folders[name]))
    }
    if len(named) - len(parts) > 1:
        raise DataError(
            f"{folder} has folders named like splits ({_in_words(named.keys() - parts.keys())}) "
            f"next to {_in_words(others)}. A split contains one folder per class, and may be next "
            "to class folders, or next to other splits and unlabelled only. Move or rename the "
            "other folders."
        )
    return parts


def _in_words(names: Collection[str]) -> str:
    return printable(", ".join(sorted(names)))[:SHOWN]


def _judge(
    listing: Listing, path: str, is_file: bool, part: str | None, label: str | None,
    chosen: bool = False,
) -> None:  # fmt: skip
    """Add a file to the images, or to what is left out."""
    if not _is_image(path):
        if not path.lower().endswith(FOREIGN):
            listing.other += 1
            return
        reason = NOT_READ
    elif not is_file:
        reason = "not a file" if os.path.exists(path) else "a link to nothing"
    elif label is None and part not in ("unlabelled", None):
        reason = f"without a label it is of no use in the {part} part"
    else:
        listing.images.append(Found(path, part, label, chosen))
        return
    listing.skipped.append((listing.name(path), reason))


def _from_table(listing: Listing, table: Path, part: str | None, alone: bool = False) -> None:
    """The images that a table lists, and those beside it, unless it is to be read alone.

    A `part` has a table of its own. One table for all has no part: its folders tell them.
    """
    folder = os.fspath(table.parent)
    rows = read_table(table, folder)
    listing.remarks += notes_on(rows)
    parts = {}  # the part that each folder is; one that is named like a label is none
    if part is None:
        free = PART_OF.keys() - {row.label.lower() for row in rows}
        names = (name for name, _ in folders_in(folder) if name.lower() in free)
        parts = {name: PART_OF[name.lower()] for name in names}
    named: set[str] = set()
    for row in rows:
        path, label = os.path.join(folder, row.name), known_class(row.label)
        first = row.name.split(os.sep, 1)[0]
        if os.path.isabs(row.name) or first == os.pardir:
            listing.skipped.append((printable(row.name), f"outside {folder}"))
            continue
        named.add(path)
        if label:
            listing.labels.add(label)
        if not os.path.lexists(path):
            listing.skipped.append((listing.name(path), f"listed in {table.name} but not found"))
        elif not path.lower().endswith((*SUFFIXES, *FOREIGN)):
            listing.skipped.append((listing.name(path), "not an image by its file name"))
        else:
            role = row.part or parts.get(first, part or "train")
            role = "unlabelled" if role == "train" and not label else role
            use = None if row.label == NONE_OF_THESE else role
            chosen = bool(label) and row.drawn is False
            _judge(listing, path, os.path.isfile(path), use, label or None, chosen)
    if alone:
        _unlisted(listing, _files(listing, folder), named, None)
        return
    other = part or "train"  # of what no folder says
    _unlisted(listing, _files(listing, folder, deep=False), named, other)
    for name, path in folders_in(folder):
        of_its_own = name in parts and name.lower() not in UNLABELLED
        if of_its_own and not any(file.startswith(os.path.join(path, "")) for file in named):
            _scan(listing, path, parts[name])
        else:
            _unlisted(listing, _files(listing, path), named, parts.get(name, other))


def _unlisted(
    listing: Listing, files: Iterator[tuple[str, bool]], named: set[str], part: str | None
) -> None:
    """Images that a table could list and does not: in the training part they have no label."""
    for path, is_file in files:
        if path in named or not _is_image(path):
            continue
        if part == "train":
            listing.pooled += is_file
            _judge(listing, path, is_file, "unlabelled", None)
        else:
            listing.unlisted += 1


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

    Each real folder is entered once, and none that contains the root, so that links in a circle
    end.
    """
    seen = set() if folder == listing.root else {*listing.above}
    pending = [folder]
    while pending:
        here = pending.pop()
        try:
            if (own := identity(here)) in seen:
                listing.skipped.append((listing.name(here), ROUND))
                continue
            seen.add(own)
            if here != listing.root and os.path.islink(here):
                inside = Path(here).resolve().is_relative_to(Path(listing.root).resolve())
                listing.elsewhere += not inside
            entries = _visible(here)
        except OSError as error:
            listing.skipped.append((listing.name(here), f"folder: {error.strerror}"))
            continue
        below: list[str] = []
        for entry in entries:
            listing.seen += 1
            if listing.progress and listing.seen % NEWS == 0:
                listing.progress(listing.seen, 0)
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


def identities_above(folder: str) -> set[tuple[int, int]]:
    """The identities of all folders that contain this one."""
    return {identity(os.fspath(parent)) for parent in Path(folder).resolve().parents}


def identity(folder: str) -> tuple[int, int]:
    """The same for a folder and all links to it."""
    state = os.stat(folder)
    return state.st_dev, state.st_ino
