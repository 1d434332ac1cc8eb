"""A data set and its split into roles, as plain arrays, whatever they were read from."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
Sizes = npt.NDArray[np.int32]
Digests = npt.NDArray[np.uint8]
Colour = tuple[float, float, float]
OnProgress = Callable[[int, int], None]  # called with (done, total)

UNKNOWN = -1  # the label of an image that has none
NO_CHECKSUMS = "not needed"  # for images whose checksums nobody has published
NONE: Indices = np.empty(0, np.int64)
DIGEST = 16  # bytes of an image's SHA-256 that are kept
SAMPLE = 1000  # images: their mean colour is known to a hundredth of the spread
LEAST = 1 / 255  # spread of images in one colour: dividing by it must stay harmless
UNUSED = -1  # the part of an image that is in none of PARTS
PARTS = ("train", "unlabelled", "validation", "test")  # where the publisher or the user put it


@dataclass(frozen=True)
class DataSet:
    """All images of a data set at one size, with what its publisher says about each."""

    name: str
    classes: tuple[str, ...]
    images: Pixels  # (N, H, W, 3), may be a memory map
    labels: Indices  # (N,), UNKNOWN where there is none
    parts: tuple[Indices, ...]  # indices of the images in each of PARTS; of no class: in none
    files: Sequence[str]  # (N,) file name relative to the root, or "train/17"
    mean: Colour  # per channel, in 0 … 1
    std: Colour
    skipped: tuple[tuple[str, str], ...] = ()  # (file, reason) of the unreadable ones
    given_labels: bool = False  # True: train on the labels as they are (a person's own folder)
    shuffled_first: bool = False  # the benchmark draws from a shuffled order (EuroSAT)
    train_in_pool: bool = False  # the benchmark's pool holds the whole training part (STL-10)
    digests: Digests | None = None  # (N, DIGEST), where they are known already
    original_sizes: Sizes | None = None  # (N, 2) width and height of the files, where they differ
    checksums: str = NO_CHECKSUMS  # what is known of the files' integrity
    notes: tuple[str, ...] = ()  # remarks for the user on what was read and what was not
    chosen: Indices = field(default_factory=lambda: NONE)  # labelled because they tell much
    hint: str = ""  # what the user probably meant, where there are fewer than two classes

    def part(self, name: str) -> Indices:
        return self.parts[PARTS.index(name)]

    @property
    def of_no_class(self) -> Indices:
        """The images that a person has marked as none of the classes: they are in no part."""
        return np.setdiff1d(np.arange(len(self.labels)), np.concatenate(self.parts))

    @property
    def size(self) -> int:
        return int(self.images.shape[1])

    def image_digests(self) -> Digests:
        """One digest per image, (N, DIGEST): equal pixels have equal ones."""
        return self._own_digests if self.digests is None else self.digests

    @cached_property
    def _own_digests(self) -> Digests:
        return digests_of(image.tobytes() for image in self.images)

    def sha256(self) -> str:
        """Fingerprint of pixels and labels: a resumed run must see the same data."""
        digest = hashlib.sha256(np.ascontiguousarray(self.labels).tobytes())
        digest.update(self.image_digests().tobytes())
        return digest.hexdigest()


def digests_of(images: Iterable[bytes]) -> Digests:
    """The digest of each image's pixels."""
    rows = bytearray()  # of millions of images, objects would take many times the memory
    for image in images:
        rows += hashlib.sha256(image).digest()[:DIGEST]
    return np.frombuffer(rows, np.uint8).reshape(-1, DIGEST)


def numbered(digests: Digests) -> Indices:
    """A number for each image; equal ones have the same."""
    _, numbers = np.unique(digests, axis=0, return_inverse=True)
    return numbers.reshape(-1)


@dataclass(frozen=True)
class Split:
    """Which image plays which role in a run: indices into `DataSet.images`."""

    labelled: Indices
    unlabelled: Indices
    validation: Indices = field(default_factory=lambda: NONE)
    test: Indices = field(default_factory=lambda: NONE)

    @property
    def known(self) -> Indices:
        """The images whose labels the run is given, to learn from or to judge by."""
        return np.concatenate([self.labelled, self.validation])

    @property
    def unknown_places(self) -> Indices:
        """Positions in the pool of the images whose labels the run is not given."""
        return np.flatnonzero(~np.isin(self.unlabelled, self.known))

    @property
    def unknown(self) -> Indices:
        """The images of the pool whose labels the run is not given, in its order."""
        return self.unlabelled[self.unknown_places]


def part_by_part(counts: Mapping[str, int]) -> tuple[list[str], list[Indices]]:
    """The names of images that lie part by part, such as train/17, and the rows of each part."""
    files = [f"{part}/{i}" for part, count in counts.items() for i in range(count)]
    ends = np.cumsum([*counts.values()])
    return files, np.split(np.arange(len(files)), ends[:-1])


def shares(labels: Indices, classes: int) -> tuple[float, ...]:
    """The share of each class among these labels."""
    counts = np.bincount(labels, minlength=classes)
    return tuple(float(c) for c in counts / max(1, counts.sum()))


def take(images: Pixels, rows: Indices) -> Pixels:
    """A copy of these images. Those of a memory map are read from its file, since touching the
    map would also keep its other pages in memory."""
    if not isinstance(images, np.memmap) or images.filename is None:
        return images[rows]
    size, contents = images[0].size, bytearray()
    with open(images.filename, "rb") as file:
        for row in rows.tolist():
            file.seek(images.offset + row * size)
            contents += file.read(size)
    return np.frombuffer(contents, np.uint8).reshape(-1, *images.shape[1:])


def mean_std(images: Pixels, indices: Indices) -> tuple[Colour, Colour]:
    """Mean and standard deviation per channel, over evenly spaced images of these."""
    chosen = indices if len(indices) else np.arange(len(images))
    step = max(1, len(chosen) // SAMPLE)
    count, total, squares = 0, np.zeros(3, np.int64), np.zeros(3, np.int64)
    for image in take(images, np.sort(chosen)[::step]):
        channels = image.reshape(-1, 3).T.astype(np.int64, order="C")  # summed along memory
        count += channels.shape[1]
        total += channels.sum(axis=1)
        squares += np.einsum("cn,cn->c", channels, channels)
    mean = total / count
    std = np.sqrt(squares / count - mean * mean)
    return _colour(mean / 255), _colour(np.maximum(std / 255, LEAST))


def _colour(values: npt.NDArray[np.float64]) -> Colour:
    red, green, blue = (round(float(value), 4) for value in values)
    return red, green, blue
