"""A person's own images: any folder or table of them, decoded once and read from the cache.

Also hints where a folder has no images or no two classes: probably another one was meant.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError, UsageError
from ..rules.choose import image_size
from ..storage.folder import SEEDS, RunFolder
from .bulk import decode_all
from .dataset import PARTS, UNKNOWN, UNUSED, DataSet, OnProgress, Sizes, mean_std
from .decode import header_size
from .labels import UNLABELLED
from .layout import SHOWN, Found, Listing, folders_in, holds_images, list_images, table_of

SAMPLE = 200  # files whose headers decide the size
LONG = 2  # times the shorter side; the usual formats of photos are below
DEEPEST = 8  # folders that are entered in search of the classes; links may lead round


def read(
    place: Path, size: int | None = None, progress: OnProgress | None = None, *,
    loose: bool = False,
) -> DataSet:  # fmt: skip
    """Read a folder or CSV file; see `layout` for what may be in it, and for `loose`.

    Files that cannot be used are listed with their reasons in `skipped`; none is ever changed.
    """
    listing = list_images(place.absolute(), progress, loose=loose)
    images = listing.images
    unnamed = table_of(place) and len(images) == listing.pooled
    in_vain = unnamed and not loose  # all that the table lists is elsewhere
    if not images or in_vain:
        hint = folder_hint(place, listing)
        any_place = loose and table_of(place) is None
        why = f"{place} contains no images." if any_place else _no_images(place, hint)
        raise DataError(why + _first_reasons(listing.skipped))
    if size is None:
        size = image_size(_median_side([found.path for found in images]), gpu=True).settings["size"]
    decoded = decode_all([found.path for found in images], size, progress=progress)
    unreadable = [(listing.name(images[i].path), reason) for i, reason in decoded.unreadable]
    skipped = sorted(listing.skipped + unreadable)
    if not len(decoded.images):
        raise DataError(f"no image in {place} can be read." + _first_reasons(skipped))

    classes = tuple(sorted(listing.labels))
    number = {label: c for c, label in enumerate(classes)}
    kept: list[Found] = [images[i] for i in decoded.kept]
    part = np.array([UNUSED if found.part is None else PARTS.index(found.part) for found in kept])
    parts = tuple(np.flatnonzero(part == p) for p in range(len(PARTS)))
    seen_in_training = np.concatenate(parts[:2])
    mean, std = mean_std(decoded.images, seen_in_training)
    return DataSet(
        name=place.resolve().name,
        classes=classes,
        images=decoded.images,
        labels=np.array([number.get(found.label or "", UNKNOWN) for found in kept], np.int64),
        parts=parts,
        files=[listing.name(found.path) for found in kept],
        mean=mean,
        std=std,
        skipped=tuple(skipped),
        given_labels=True,
        digests=decoded.digests,
        original_sizes=decoded.sizes,
        chosen=np.flatnonzero([found.chosen for found in kept]),
        notes=(*listing.notes(), *_cropped(decoded.sizes)),
        hint=folder_hint(place, listing),
    )


def typical_side(
    place: Path, progress: OnProgress | None = None, *, loose: bool = False
) -> float | None:
    """The median of the shorter sides, by the headers of a sample; None if none can be read."""
    listing = list_images(place.absolute(), progress, loose=loose)
    return _median_side([found.path for found in listing.images])


def _median_side(files: Sequence[str]) -> float | None:
    step = max(1, len(files) // SAMPLE)
    found = [size for file in files[::step] if (size := header_size(file)) is not None]
    return float(np.median([min(size) for size in found])) if found else None


def _cropped(sizes: Sizes) -> list[str]:
    """A note on long images, of which the net sees less than half."""
    long = int((sizes.max(axis=1) > LONG * sizes.min(axis=1)).sum())
    told = "images more than twice as long as wide, of which only the central square is used"
    return [f"{told}: {long:,}"] if long else []


def _no_images(place: Path, hint: str) -> str:
    if table := table_of(place):
        return (
            f"no image listed in {table} was found. File names are relative to the folder of the "
            f"table ({table.parent})."
        )
    listed = "a labels.csv with the columns file_name,label"
    if holds_images(os.fspath(place)):
        return (
            f"{place} contains images, but no class folders. Create one folder per class with a "
            f"few of its images, and move all others to {place / 'unlabelled'}; or write {listed}."
            + (f" {hint}" if hint else "")
        )
    return (
        f"{place} contains no images in class folders. Expected: {place}/<class>/*.jpg and "
        f"{place}/unlabelled/*.jpg, or {listed}."
    )


def _first_reasons(skipped: Sequence[tuple[str, str]]) -> str:
    return "".join(f" {file}: {reason}." for file, reason in skipped[:3])


def refuse_run(place: Path) -> None:
    """Refuse a run folder, or a folder that contains one: its pictures are no data."""
    if RunFolder(place).holds_run() or (place / SEEDS).is_file():
        path = shlex.quote(str(place))
        raise UsageError(
            f"--data {place} is a run folder, not an image folder. `tamatch report {path}` shows "
            f"its results, `tamatch resume {path}` continues it."
        )
    if table_of(place):
        return  # which lists the images, so that a run may lie beside them
    for record in sorted(place.glob("*/run.json")):
        if RunFolder(record.parent).holds_run():
            raise UsageError(
                f"--data {place} contains the run {record.parent}, but every folder in it must be "
                "a class. Give a folder that contains only images, or move the run elsewhere."
            )


def folder_hint(place: Path, listing: Listing) -> str:
    """A hint where a folder, listed here, has no two classes; empty if there is none to give."""
    if len(listing.labels) > 1 or table_of(place):
        return ""
    return _hint_inside(place) if listing.labels else _hint_above(place)


def _hint_inside(place: Path) -> str:
    """The only class may be the folder of all classes, or lead to it without a choice."""
    inner, top = place, place.resolve()
    for _ in range(DEEPEST):
        inside = [n for n, _ in folders_in(os.fspath(inner)) if n.lower() not in UNLABELLED]
        if len(inside) != 1:
            return ""
        inner /= inside[0]
        if RunFolder(inner).holds_run() or not inner.resolve().is_relative_to(top):
            return ""
        try:
            classes = list_images(inner.absolute()).labels
        except DataError:  # it may not be read
            return ""
        if len(classes) > 1:
            break
    else:
        return ""
    named = ", ".join(sorted(classes))[:SHOWN]
    if aside := [name for name, _ in folders_in(os.fspath(place)) if name.lower() in UNLABELLED]:
        return (
            f"Perhaps the classes are {named}: move these folders from {inner} to {place}, next to "
            f"{aside[0]}."
        )
    return f"Perhaps you meant {inner}, which has the classes {named}."


def _hint_above(place: Path) -> str:
    """A folder with images, beside others with images, may be one of the classes."""
    above = place.parent if place.name not in ("", os.pardir) else place / os.pardir
    try:
        beside = [path for _, path in folders_in(os.fspath(above)) if holds_images(path)]
    except DataError:
        return ""
    if len(beside) < 2 or not holds_images(os.fspath(place)):
        return ""
    return f"Perhaps you meant {above}, where {place.resolve().name} is one of several folders."
