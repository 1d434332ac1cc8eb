"""The batch of the coming step, made on the device while the present one is learned from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils import _pytree as pytree

from .stats import by_type
from .types import Batch


class Ahead:
    """Holds the batch of the present step in one fixed place, where a captured step finds it.

    Augmentation is many small kernels that leave a GPU almost idle. On a stream of their own,
    which a CUDA graph records as a parallel branch, they run beside the net's large ones.
    """

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.ready: Batch | None = None
        self.step: int | None = None  # the step that `ready` is of, as the host knows it

    @contextmanager
    def beside(self) -> Iterator[None]:
        """What is queued in here runs beside what is queued after it, until `put`."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield
        if not torch.cuda.is_current_stream_capturing():
            # the first steps, in which cuDNN measures its kernels: let nothing disturb that
            torch.cuda.current_stream().wait_stream(self.stream)

    def put(self, batch: Batch) -> None:
        """The present step has read its batch: replace it by this one."""
        torch.cuda.current_stream().wait_stream(self.stream)
        if self.ready is None:
            self.ready = Batch(*pytree.tree_map(torch.clone, tuple(batch)))
            return
        old, new = (by_type(pytree.tree_leaves(tuple(both))) for both in (self.ready, batch))
        for here, there in zip(old, new, strict=True):
            torch._foreach_copy_(here, there)
