"""Makes the next step's batch on the device while the current one is learned from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ..machine.branches import join_all, read_on
from ..stats import by_type
from ..types import Batch
from .source import Source


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
