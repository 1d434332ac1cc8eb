"""Describe a data set before anything is trained on it: `tamatch check`."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.cells import cell_len  # an emoji and a Chinese sign take two cells of a terminal

from ..errors import DataError
from ..rules.choose import LOOKS, image_size, looked_at
from . import DATASETS, load, own_path
from .dataset import (
    NO_CHECKSUMS,
    PARTS,
    UNKNOWN,
    DataSet,
    Digests,
    Indices,
    OnProgress,
    Pixels,
    Sizes,
    numbered,
)
from .folder import typical_side
from .splitfile import ROLES
from .splits import SplitPlan, make_split

Counts = dict[str, dict[str, int]]  # of each part or role: images of each class, "" without label

SHOWN = 20  # items of a list that are printed; the JSON has all
ALIKE = 2  # of 255: smooth water seen from above differs by 3 to 8, and is a picture


@dataclass(frozen=True)
class Closer:
    """What the features of a pre-trained net say, the worst first."""

    weights: str
    doubtful: tuple[tuple[str, str, str, float], ...]  # file, label, rather that, how probably
    alike: tuple[tuple[str, str, float, bool], ...]  # two files; cosine; in training and held out

    def lines(self) -> list[str]:
        """The report for the terminal."""
        doubtful = [f"{f}: {label}, rather {c} ({p:.0%})" for f, label, c, p in self.doubtful]
        leak = " (both in training and held out)"
        alike = [f"{a} ≈ {b}{leak if held else ''}" for a, b, _, held in self.alike]
        by = f", by the features of {self.weights}"
        return [
            *listed(doubtful, f"doubtful label{by}", f"doubtful labels{by}"),
            *listed(alike, f"pair of nearly equal images{by}", f"pairs of nearly equal images{by}"),
            *([] if doubtful or alike else [f"no doubtful label, no nearly equal images{by}"]),
        ]


@dataclass(frozen=True)
class CheckReport:
    """What `tamatch check` found."""

    name: str
    classes: tuple[str, ...]
    images: int
    size: int  # side of the images, for a person's own as a net from scratch takes them on a GPU
    size_without_gpu: int  # the same, unless --size says otherwise
    size_pretrained: int  # at most, with the usual pre-trained net
    file_sizes: dict[str, tuple[int, int]] | None  # smallest, median and largest file
    parts: Counts
    checksums: str
    memory: int  # bytes of pixels that training holds
    skipped: tuple[tuple[str, str], ...]  # (file, reason)
    notes: tuple[str, ...]
    duplicates: tuple[tuple[str, ...], ...]  # groups of files with equal pixels
    leaks: tuple[tuple[str, ...], ...]  # those of them that are both in training and held out
    contradictions: tuple[tuple[str, ...], ...]  # those with different labels
    one_colour: tuple[str, ...]  # files that show nothing, or nearly so, as they are trained on
    roles: Counts | None  # what a run with this split would use
    labelled_in_pool: bool | None
    problems: tuple[str, ...]  # why it cannot be trained on as it is
    closer: Closer | None = None  # where a net has looked at the images

    def to_json(self) -> dict[str, Any]:
        """All fields as plain values for `json.dumps`."""
        return dataclasses.asdict(self)

    def lines(self) -> list[str]:
        """The report for the terminal, without the problems: the command ends with these."""
        side = f"{self.size} × {self.size} pixels"
        if {self.size_without_gpu, self.size_pretrained} != {self.size}:
            side += f" ({self._sizes_to_train_on()})"
        files = [f"{what} {w:,} × {h:,}" for what, (w, h) in (self.file_sizes or {}).items()]
        unusable = [f"{file}: {why}" for file, why in self.skipped]
        return [
            f"{self.name}: {counted(len(self.classes), 'class', 'classes')}, "
            f"{counted(self.images, 'image', 'images')} at {side}",
            *table(self.parts, self.classes),
            *([f"files: {', '.join(files)} pixels"] if files else []),
            *([] if self.checksums == NO_CHECKSUMS else [f"checksums: {self.checksums}"]),
            f"memory: {self.memory / 2**20:,.1f} MiB of pixels",
            *self.notes,
            *listed(unusable, "unusable file", "unusable files"),
            *self._duplicate_lines(),
            *listed(self.one_colour, "image of nearly one colour", "images of nearly one colour"),
            *(self.closer.lines() if self.closer else []),
            *self._role_lines(),
        ]

    def _sizes_to_train_on(self) -> str:
        at_most = "up to " if self.size_pretrained > LOOKS[-1] else ""
        pretrained, small, large = (
            f"{n} × {n}" for n in (self.size_pretrained, self.size_without_gpu, self.size)
        )
        scratch = large if small == large else f"{large}, without a GPU {small}"
        return (
            f"--size sets what is trained on: by default {at_most}{pretrained} with a pre-trained "
            f"net, from scratch {scratch}"
        )

    def _duplicate_lines(self) -> list[str]:
        """Each group once, those that spoil a run first."""
        leaks, contradictions, shown = {*self.leaks}, {*self.contradictions}, []
        for group in self.duplicates:
            faults = ["both in training and held out"] if group in leaks else []
            faults += ["different labels"] if group in contradictions else []
            shown.append((faults, " = ".join(group)))
        shown.sort(key=lambda item: -len(item[0]))
        lines = [text + (f" ({', '.join(faults)})" if faults else "") for faults, text in shown]
        return listed(lines, "group of identical images", "groups of identical images")

    def _role_lines(self) -> list[str]:
        if self.roles is None:
            return []
        also = "also" if self.labelled_in_pool else "not"
        lines = [
            f"split (the labelled images are {also} in the unlabelled pool):",
            *table(self.roles, self.classes),
        ]
        # what a run can do without, but rarely should
        total = {role: sum(own.values()) for role, own in self.roles.items()}
        if total["unlabelled"] <= (total["labelled"] if self.labelled_in_pool else 0):
            lines.append("no unlabelled images: put them into a folder called unlabelled")
        if not total["validation"] + total["test"]:
            lines.append(
                "no test images: a first answer estimates its error by cross-validation of the "
                "labels; any other run needs a folder test with class folders, or "
                "--validation-per-class N"
            )
        return lines


def check(
    name: str | Path,
    root: Path | None = None,
    plan: SplitPlan | None = None,
    size: int | None = None,
    progress: OnProgress | None = None,
    labels: Path | None = None,
) -> CheckReport:
    """Read a data set whole, and say what is in it; with a plan, what each role would get."""
    data = load(name, root, size, progress, labels)
    problems: list[str] = []
    roles, labelled_in_pool = None, None
    if plan is not None or data.given_labels:
        try:
            split = make_split(data, plan or SplitPlan())
            roles = _counts(data, {role: getattr(split, role) for role in ROLES})
            labelled_in_pool = bool(np.isin(split.labelled, split.unlabelled).any())
        except DataError as error:
            problems.append(str(error))
    groups = equal_images(data.image_digests())
    held_out = np.zeros(len(data.images), bool)
    held_out[np.concatenate([data.part("validation"), data.part("test")])] = True
    disagreeing = [g for g in groups if len({*data.labels[g].tolist()} - {UNKNOWN}) > 1]
    without_gpu = pretrained = data.size
    if size is None and str(name) not in DATASETS:
        without_gpu = min(data.size, image_size(data.size, gpu=False).settings["size"])
        place = own_path(name)
        side = data.size if place.suffix == ".npz" else typical_side(place)
        pretrained = looked_at(side, LOOKS[0])
    return CheckReport(
        name=data.name,
        classes=data.classes,
        images=len(data.images),
        size=data.size,
        size_without_gpu=without_gpu,
        size_pretrained=pretrained,
        file_sizes=None if data.original_sizes is None else _extremes(data.original_sizes),
        parts=_counts(data, dict(zip(PARTS, data.parts, strict=True))),
        checksums=data.checksums,
        memory=data.images.nbytes,
        skipped=data.skipped,
        notes=data.notes,
        duplicates=_named(data, groups),
        leaks=_named(data, [g for g in groups if held_out[g].any() and not held_out[g].all()]),
        contradictions=_named(data, disagreeing),
        one_colour=tuple(data.files[i] for i, im in enumerate(data.images) if _is_one_colour(im)),
        roles=roles,
        labelled_in_pool=labelled_in_pool,
        problems=tuple(problems),
    )


def equal_images(digests: Digests) -> list[Indices]:
    """The groups of two or more images with one digest, each by ascending index."""
    numbers = numbered(digests)
    order = np.argsort(numbers, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(numbers))[:-1])
    return sorted((g for g in groups if len(g) > 1), key=lambda group: int(group[0]))


def _counts(data: DataSet, groups: Mapping[str, Indices]) -> Counts:
    counts: Counts = {}
    for group, indices in groups.items():
        labels = data.labels[indices]
        own = {c: int((labels == i).sum()) for i, c in enumerate(data.classes)}
        unknown = int((labels == UNKNOWN).sum())
        counts[group] = {**own, "": unknown} if unknown else own
    return counts


def _is_one_colour(image: Pixels) -> bool:
    """Is no pixel far from the colour of the first?"""
    values = image.reshape(-1)
    first = np.tile(image[0, 0], len(values) // 3)
    return bool((np.maximum(values, first) - np.minimum(values, first)).max() <= ALIKE)


def _extremes(sizes: Sizes) -> dict[str, tuple[int, int]]:
    ordered = sizes[np.argsort(sizes.astype(np.int64).prod(axis=1), kind="stable")]
    picks = {"smallest": 0, "median": len(ordered) // 2, "largest": -1}
    return {what: (int(ordered[i][0]), int(ordered[i][1])) for what, i in picks.items()}


def _named(data: DataSet, groups: list[Indices]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(data.files[i] for i in group) for group in groups)


def counted(number: int, one: str, more: str) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else more}"


def listed(items: Sequence[str], one: str, more: str) -> list[str]:
    """How many items there are, and the first of them; nothing if there are none."""
    if not items:
        return []
    lines = [f"{counted(len(items), one, more)}:", *(f"  {item}" for item in items[:SHOWN])]
    if len(items) > SHOWN:
        lines.append(f"  … and {len(items) - SHOWN:,} more (--json lists all)")
    return lines


def table(counts: Counts, classes: tuple[str, ...]) -> list[str]:
    """One line per class, one column per part; classes that are all alike share a line."""
    columns = [column for column, own in counts.items() if sum(own.values())]
    rows = [(c, [counts[column].get(c, 0) for column in columns]) for c in classes]
    if len(rows) > 1 and all(row == rows[0][1] for _, row in rows):
        rows = [("each class", rows[0][1])]
    without = [counts[column].get("", 0) for column in columns]
    if any(without):
        rows.append(("no label", without))
    rows.append(("total", [sum(counts[column].values()) for column in columns]))
    lines = [("", columns), *((name, [f"{count:,}" for count in row]) for name, row in rows)]
    width = max(cell_len(name) for name, _ in lines)
    return [
        f"  {name}{' ' * (width - cell_len(name))}"
        + "".join(f"  {cell:>{max(len(c), 10)}}" for cell, c in zip(cells, columns, strict=True))
        for name, cells in lines
    ]
