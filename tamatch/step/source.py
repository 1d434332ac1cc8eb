"""The training images: which a step sees, and how they come to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from .. import dist
from ..data import DataSet, Split
from ..data.dataset import Indices, Pixels
from .sampler import Sampler

BLOCK = 64  # steps whose ids are sent to the device at once
LABELLED, UNLABELLED = 0, 1  # which of the two in every pair that a source holds
CHUNK = 4096  # images sent to the device at once, so that the host never holds a set twice


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
        """End what works beside the training."""


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
    """These of the (N, H, W, 3) images in memory as (n, 3, H, W) on the device."""
    _, height, width, channels = images.shape
    there = torch.empty(len(indices), channels, height, width, dtype=torch.uint8, device=device)
    for first in range(0, len(indices), CHUNK):
        part = slice(first, first + CHUNK)
        there[part] = torch.from_numpy(images[indices[part]]).permute(0, 3, 1, 2)
    return there
