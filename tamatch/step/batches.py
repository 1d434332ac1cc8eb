"""The batch of a step, gathered and augmented on the device, and made there ahead of its step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ..augment import Augment
from ..machine.branches import join_all, read_on
from ..stats import by_type
from ..types import Batch, Views
from .source import LABELLED, UNLABELLED, Source

STREAMS = 16  # random streams of each kind of images, one per view


class Batches:
    """Makes the batch of any step that the source is prepared for, with the views asked for."""

    def __init__(self, source: Source, augment: Augment, views: Views, steps: int) -> None:
        self.source, self.augment, self.views, self.steps = source, augment, views, steps
        cuda = source.device.type == "cuda"
        self.layout = torch.channels_last if cuda else torch.contiguous_format
        places = (s.slots for s in source.samplers)  # of this process in the batch of all
        self.slots = [torch.arange(p.start, p.stop, device=source.device) for p in places]

    def __call__(self, step: Tensor) -> Batch:
        id_x, id_u = self.source.ids(step)
        x = self._augmented(LABELLED, id_x, self.views.x, step)
        u = self._augmented(UNLABELLED, id_u, self.views.u, step) if self.views.u else ()
        progress = step.float() / self.steps
        return Batch(x, self.source.labels[id_x], u, id_x, id_u, step, progress)

    def _augmented(
        self, kind: int, ids: Tensor, names: tuple[str, ...], step: Tensor
    ) -> tuple[Tensor, ...]:
        images = self.source.images(kind, ids)
        return tuple(
            self.augment(
                name, images, step, self.slots[kind], stream=STREAMS * kind + i
            ).contiguous(memory_format=self.layout)
            for i, name in enumerate(names)
        )


class Prefetcher:
    """Keeps the current batch at one fixed address, where a captured step finds it.

    Gathering and augmenting leave a GPU almost idle. On a stream of their own, which a CUDA graph
    records as a parallel branch, they run beside the net's kernels.
    """

    def __init__(self, source: Source, make: Callable[[Tensor], Batch]) -> None:
        self.source, self.make = source, make
        self.stream = torch.cuda.Stream(source.device)  # type: ignore[no-untyped-call]
        self.ready: Batch | None = None
        self.step: int | None = None  # the step that `ready` is of, as the host knows it

    def prepare(self, step: int, at: Tensor) -> None:
        """The host's work before a step; `at` is the same step on the device."""
        if self.step != step:  # the first of this process
            self.source.prepare(step)
            self._put(self.make(at))
        self.source.prepare(step + 1)
        self.step = step + 1

    @contextmanager
    def current(self, at: Tensor) -> Iterator[Batch]:
        """This step's batch, while the next one is made beside what is done with it."""
        assert self.ready is not None, "call prepare() first"
        here = torch.cuda.current_stream()
        self.stream.wait_stream(here)
        try:
            with torch.cuda.stream(self.stream):
                coming = self.make(at + 1)
            if not torch.cuda.is_current_stream_capturing():
                # the first steps, in which cuDNN measures its kernels: let nothing disturb that
                here.wait_stream(self.stream)
            yield self.ready
        finally:  # also after a failure, which a capture could not end with otherwise
            here.wait_stream(self.stream)
            join_all()
        self._put(coming)
        if torch.cuda.is_current_stream_capturing():
            read_on(here, tuple(coming))

    def _put(self, batch: Batch) -> None:
        if self.ready is None:
            self.ready = Batch(*pytree.tree_map(torch.clone, tuple(batch)))
            return
        old, new = (by_type(pytree.tree_leaves(tuple(both))) for both in (self.ready, batch))
        for here, there in zip(old, new, strict=True):
            torch._foreach_copy_(here, there)
