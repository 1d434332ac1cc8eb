"""The images of a run: which ones a step trains on, how they come to the device, and those that
are only predicted.

The images of a step are a pure function of (seed, step), so there is nothing to save.
"""

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import dist
from ..data import UNKNOWN, DataSet, Split
from ..data.dataset import Indices, Pixels

U64 = npt.NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ divided by the golden ratio, as in splitmix64
BLOCK = 64  # steps whose ids are sent to the device at once
LABELLED, UNLABELLED = 0, 1  # which of the two in every pair that a source holds
CHUNK = 4096  # images sent to the device at once, so that the host never holds a set twice
PREDICTION_COLUMNS = ("image", "label", "predicted", "confidence")


def mix64(x: U64) -> U64:
    """The finaliser of splitmix64: every bit of the input moves every bit of the output."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def stream_key(*numbers: int) -> int:
    """One 64-bit number from several: the key of an independent random stream."""
    key = np.zeros(1, np.uint64)  # an array: of a single number NumPy reports the overflow
    for number in numbers:
        key = mix64(key + GOLDEN + np.uint64(number & (2**64 - 1)))
    return int(key[0])


def permutation(count: int, key: int) -> npt.NDArray[np.int64]:
    """A random order of 0 … count-1. Our own, since NumPy may change its stream some day."""
    ranks = mix64(np.arange(count, dtype=np.uint64) * GOLDEN + np.uint64(key))
    return np.argsort(ranks, kind="stable")


class Sampler:
    """Walks through a pool pass after pass, each pass a fresh permutation without replacement.

    With `replacement` every place of a batch draws independently of the others.
    `slots` are the places in a step's batch that this process fills; all of them, if it is alone.
    """

    def __init__(
        self,
        count: int,
        batch: int,
        seed: int,
        stream: int,
        slots: range | None = None,
        *,
        replacement: bool = False,
    ) -> None:
        self.replacement = replacement
        self.count, self.batch, self.seed, self.stream = count, batch, seed, stream
        self.slots = range(batch) if slots is None else slots
        self._order: tuple[int, npt.NDArray[np.int64]] = (-1, np.empty(0, np.int64))

    def ids(self, step: int, steps: int) -> npt.NDArray[np.int64]:
        """(steps, slots): the positions in the pool that each of these steps sees."""
        if not self.count:  # of a method that does not look at this pool
            return np.zeros((steps, len(self.slots)), np.int64)
        at = np.arange(step * self.batch, (step + steps) * self.batch)
        ids = self._drawn(at) if self.replacement else self._walked(at)
        return ids.reshape(steps, self.batch)[:, self.slots.start : self.slots.stop]

    def _drawn(self, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """For each place in the stream of draws a position in the pool, by its hash alone."""
        key = np.uint64(stream_key(self.seed, self.stream))
        drawn = mix64(at.astype(np.uint64) * GOLDEN + key)
        return (drawn >> np.uint64(11)).astype(np.int64) % self.count

    def _walked(self, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        ids = np.empty_like(at)
        passes = at // self.count
        for number in range(int(passes[0]), int(passes[-1]) + 1):
            here = passes == number
            ids[here] = self._pass(number)[at[here] % self.count]
        return ids

    def _pass(self, number: int) -> npt.NDArray[np.int64]:
        if self._order[0] != number:
            key = stream_key(self.seed, self.stream, number)
            self._order = (number, permutation(self.count, key))
        return self._order[1]


@dataclass(frozen=True)
class Draw:
    """How many images a step of all processes together sees, and in which random order."""

    labelled: int
    unlabelled: int
    seed: int
    reads_pool: bool = True  # False for a method that wants no view of the unlabelled images
    replacement: bool = False


class Source(ABC):
    """Serves the uint8 images of a step; which ones is a function of (seed, step).

    The ids of `BLOCK` steps lie in a device table, so that a captured step needs no host.
    """

    place: ClassVar[Literal["device", "stream"]]  # where the images live, as `--images` names it

    def __init__(self, data: DataSet, split: Split, draw: Draw, device: torch.device) -> None:
        self.device = device
        self.labels = torch.from_numpy(data.labels[split.labelled]).to(device)
        self.indices = (split.labelled, split.unlabelled)[: 2 if draw.reads_pool else 1]
        sizes = ((len(split.labelled), draw.labelled), (len(split.unlabelled), draw.unlabelled))
        self.samplers = tuple(
            Sampler(
                count, batch, draw.seed, stream, dist.share(batch), replacement=draw.replacement
            )
            for stream, (count, batch) in enumerate(sizes)
        )
        shapes = [(BLOCK, len(s.slots)) for s in self.samplers]
        self.tables = tuple(torch.zeros(s, dtype=torch.int64, device=device) for s in shapes)
        self.block = -1

    def prepare(self, step: int) -> None:
        """Make sure the device has what this step reads (host side, before the step)."""
        if step // BLOCK == self.block:
            return
        self.block = step // BLOCK
        drawn = [torch.from_numpy(s.ids(self.block * BLOCK, BLOCK)) for s in self.samplers]
        for table, ids in zip(self.tables, drawn, strict=True):
            table.copy_(ids.pin_memory() if table.is_cuda else ids, non_blocking=True)

    def ids(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of the labelled and the unlabelled images of a step."""
        row = (step % BLOCK).view(1)
        id_x, id_u = (table.index_select(0, row)[0] for table in self.tables)
        return id_x, id_u

    @abstractmethod
    def images(self, kind: int, ids: Tensor) -> Tensor:
        """(N, 3, H, W) uint8 of the prepared step, of kind `LABELLED` or `UNLABELLED`."""

    def close(self) -> None:  # noqa: B027 (resident images have nothing to end)
        """End the threads that read images."""


class Resident(Source):
    """All images live on the device, and a step gathers its own."""

    place = "device"

    def __init__(self, data: DataSet, split: Split, draw: Draw, device: torch.device) -> None:
        super().__init__(data, split, draw, device)
        self.on_device = tuple(to_device(data.images, i, device) for i in self.indices)

    def images(self, kind: int, ids: Tensor) -> Tensor:
        return self.on_device[kind].index_select(0, ids)


class Streamed(Source):
    """The images stay where they are; a thread reads those of the coming steps.

    They travel through pinned buffers, used in turn, to one fixed place on the device: a captured
    step reads the same addresses each time.
    """

    place = "stream"

    def __init__(
        self, data: DataSet, split: Split, draw: Draw, device: torch.device, *, buffers: int = 2
    ) -> None:
        super().__init__(data, split, draw, device)
        cuda = device.type == "cuda"
        self.pixels = data.images
        # a sampler remembers the pass it is in, so the thread has its own
        self.readers = [copy(s) for s in self.samplers[: len(self.indices)]]
        shapes = [(len(s.slots), *data.images.shape[1:]) for s in self.readers]
        self.inputs = [torch.empty(s, dtype=torch.uint8, device=device) for s in shapes]
        self.staging = [
            [torch.empty(s, dtype=torch.uint8, pin_memory=cuda) for s in shapes]
            for _ in range(buffers)
        ]
        self.sent = torch.cuda.Event(blocking=True) if cuda else None  # type: ignore[no-untyped-call]
        self.held = -1  # the step whose images are in `inputs`
        self.thread = ThreadPoolExecutor(1, "images")
        self.reads: dict[int, Future[None]] = {}  # by step

    def prepare(self, step: int) -> None:
        super().prepare(step)
        if step == self.held:
            return
        if self.sent is not None:
            self.sent.synchronize()  # no buffer is written while it is being sent
        coming = range(step, step + len(self.staging))
        self.reads = {s: self.reads.get(s) or self.thread.submit(self.read, s) for s in coming}
        self.reads.pop(step).result()
        for here, there in zip(self.staging[step % len(self.staging)], self.inputs, strict=True):
            there.copy_(here, non_blocking=True)
        if self.sent is not None:
            self.sent.record(torch.cuda.current_stream(self.device))
        self.held = step

    def read(self, step: int) -> None:
        """In the thread, one step after the other. No CUDA call: it could break a capture."""
        buffers = self.staging[step % len(self.staging)]
        for buffer, sampler, indices in zip(buffers, self.readers, self.indices, strict=True):
            buffer.numpy()[...] = self.pixels[indices[sampler.ids(step, 1)[0]]]

    def images(self, kind: int, ids: Tensor) -> Tensor:
        return self.inputs[kind].permute(0, 3, 1, 2).contiguous()

    def close(self) -> None:
        """End the thread; a step after this would start another."""
        self.thread.shutdown(cancel_futures=True)
        self.thread, self.reads = ThreadPoolExecutor(1, "images"), {}


class OnHost:
    """Images that stay where they are, read a slice at a time.

    A CPU is faster with `channels_last`, which is how they are stored; the last bits depend on it.
    """

    def __init__(self, images: Pixels, indices: Indices, *, channels_last: bool = False) -> None:
        self.pixels, self.indices = images, indices
        self.layout = torch.channels_last if channels_last else torch.contiguous_format

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, part: slice) -> Tensor:
        found = torch.from_numpy(self.pixels[self.indices[part]]).permute(0, 3, 1, 2)
        return found.contiguous(memory_format=self.layout)


def to_device(images: Pixels, indices: Indices, device: torch.device) -> Tensor:
    """The images with these indices, (N, H, W, 3) in memory, as (n, 3, H, W) on the device."""
    _, height, width, channels = images.shape
    kind = torch.from_numpy(np.empty(0, images.dtype)).dtype  # rows of numbers are not bytes
    there = torch.empty(len(indices), channels, height, width, dtype=kind, device=device)
    for first in range(0, len(indices), CHUNK):
        part = slice(first, first + CHUNK)
        there[part] = torch.from_numpy(images[indices[part]]).permute(0, 3, 1, 2)
    return there


@dataclass(frozen=True)
class Scores:
    """Error and accuracy by class, in percent; None for a class that is not among the images."""

    error: float
    per_class: list[float | None]


class Subset:
    """Images that are predicted and not trained on; without a device they stay on the host."""

    def __init__(self, data: DataSet, indices: Indices, device: torch.device | None = None) -> None:
        self.data, self.indices = data, indices
        self.images: Tensor | OnHost = (
            OnHost(data.images, indices)
            if device is None
            else to_device(data.images, indices, device)
        )
        self.labels = torch.from_numpy(data.labels[indices])
        self.classes = len(data.classes)
        self.files = [data.files[i] for i in indices]

    def __len__(self) -> int:
        return len(self.labels)

    def pixels(self, places: Indices) -> Pixels:
        """(n, H, W, 3): some of the images, to be looked at."""
        return self.data.images[self.indices[places]]

    def line(self, i: int, predicted: int, confidence: float) -> tuple[str, str, str, str]:
        """The `PREDICTION_COLUMNS` of one image; the label is empty where it is not known."""
        names, label = self.data.classes, int(self.labels[i])
        true = names[label] if label != UNKNOWN else ""
        return self.files[i], true, names[predicted], f"{confidence:.6f}"

    def score(self, probabilities: Tensor) -> Scores:
        """Compare predictions with the true labels."""
        right = (probabilities.argmax(-1).cpu() == self.labels).double()
        total = torch.bincount(self.labels, minlength=self.classes).double()
        hits = torch.bincount(self.labels, weights=right, minlength=self.classes)
        per_class = [
            100 * float(h) / float(n) if n else None for h, n in zip(hits, total, strict=True)
        ]
        return Scores(100 * (1 - float(right.mean())), per_class)


class Pool(Subset):
    """The images of the unlabelled pool whose labels the run is not given otherwise.

    `places` are their positions in the pool that the run draws from.
    """

    def __init__(self, data: DataSet, split: Split) -> None:
        self.places = split.unknown_places
        super().__init__(data, split.unknown)

    @property
    def truth(self) -> Indices | None:
        """The hidden labels, where the data set knows all of them; no method ever sees them."""
        labels = self.data.labels[self.indices]
        return labels if len(labels) and bool((labels != UNKNOWN).all()) else None
