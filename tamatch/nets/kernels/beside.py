"""A second stream of a captured step, for what nothing waits for: gradients of weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.autograd import Variable

from ...machine.branches import OPEN, another, capturing, read_on

MOST, SHARE = 4 * 2**30, 32  # bytes held for the second stream, at most this part of the memory


class Beside:
    """Runs parts of one backward pass beside the rest of it, in the graph that is captured.

    A kernel for one layer rarely fills a GPU to its end. Outside of a capture all stays in order,
    as cuDNN measures its kernels there.
    """

    def __init__(self, *, sparing: bool = False) -> None:
        self.sparing = sparing  # nothing is held: memory is short
        self.stream: torch.cuda.Stream | None = None  # while anything runs on it
        self.held: list[Tensor] = []  # what it still reads must not be freed

    @contextmanager
    def reading(self, *tensors: Tensor) -> Iterator[None]:
        """Work that reads these tensors, and whose results are read after `join` alone."""
        if not capturing(tensors[0]):
            yield
            return
        here = torch.cuda.current_stream()
        if self.stream is None:
            self.stream = another(here)
            OPEN.append(self.stream)
            # A backward pass that stops at the images never comes to the weights.
            Variable._execution_engine.queue_callback(self.join)
        if sum(tensor.nbytes for tensor in self.held) > self.most(here.device):
            here.wait_stream(self.stream)
            self.held.clear()
        self.stream.wait_stream(here)
        self.held.extend(tensors)
        with torch.cuda.stream(self.stream):
            yield

    def most(self, device: torch.device) -> int:
        """Bytes that are held for the second stream; then the first one waits for it."""
        if self.sparing:
            return 0
        return min(MOST, torch.cuda.get_device_properties(device).total_memory // SHARE)

    def join(self, *results: Tensor) -> None:
        """Let everything from here on come after what was done beside, and read what came of it."""
        if self.stream is None:
            return
        here = torch.cuda.current_stream()
        here.wait_stream(self.stream)
        OPEN.remove(self.stream)
        self.stream = None
        self.held.clear()
        read_on(here, results)
