"""A person's own images: any folder or table of them, decoded once and read from the cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..rules.choose import image_size
from .bulk import decode_all
from .dataset import PARTS, UNKNOWN, DataSet, OnProgress, Sizes, mean_std
from .decode import header_size
from .layout import Found, holds_images, list_images, table_of
from .wrong_folder import folder_hint

SAMPLE = 200  # files whose headers decide the size
LONG = 2  # times the shorter side; the usual formats of photos are below


def read(place: Path, size: int | None = None, progress: OnProgress | None = None) -> DataSet:
    """Read a folder or CSV file; see `layout` for what may be in it.

    Files that cannot be used are listed with their reasons in `skipped`; none is ever changed.
    """
    listing = list_images(place.absolute(), progress)
    images = listing.images
    in_vain = table_of(place) and len(images) == listing.pooled  # all that it lists is elsewhere
    if not images or in_vain:
        hint = folder_hint(place, listing)
        raise DataError(_no_images(place, hint) + _first_reasons(listing.skipped))
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
    part = np.array([PARTS.index(found.part) for found in kept])
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
        notes=(*listing.notes(), *_cropped(decoded.sizes)),
        hint=folder_hint(place, listing),
    )


def typical_side(place: Path, progress: OnProgress | None = None) -> float | None:
    """The median of the shorter sides, by the headers of a sample; None if none can be read."""
    return _median_side([found.path for found in list_images(place.absolute(), progress).images])


def _median_side(files: Sequence[str]) -> float | None:
    step = max(1, len(files) // SAMPLE)
    found = [size for file in files[::step] if (size := header_size(file)) is not None]
    return float(np.median([min(size) for size in found])) if found else None


def _cropped(sizes: Sizes) -> list[str]:
    """Of a long image the net sees less than half, which its user may not expect."""
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
