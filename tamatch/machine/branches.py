"""CUDA streams of a captured step: its own, and branches that run in parallel with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.autograd import Variable
from torch.utils import _pytree as pytree

from ..errors import UsageError
from .gpu import gpu_failure
from .memory import is_out_of_memory, without_autotuning

Result = TypeVar("Result")
OPEN: list[torch.cuda.Stream] = []  # branches that are not joined yet
MOST_HELD = 4 * 2**30  # bytes held for a second stream at most,
SHARE_HELD = 32  # and at most one part in so many of the GPU's memory


@contextmanager
def working_on(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """Work on this stream, ordered after and before what is queued on the current one.

    A capture needs one, as the default stream cannot be captured. On a CPU there is none, and
    where it is the current one already, nothing changes.
    """
    if stream is None or stream == torch.cuda.current_stream(stream.device):
        yield
        return
    outside = torch.cuda.current_stream(stream.device)  # which need not be the current device
    stream.wait_stream(outside)
    with torch.cuda.stream(stream):
        yield
    outside.wait_stream(stream)


@contextmanager
def recorded(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream | None) -> Iterator[None]:
    """Capture what is queued on the stream in here as the graph, without running it."""
    try:
        with without_autotuning(), torch.cuda.graph(graph, stream=stream):
            yield
    except RuntimeError as error:
        if is_out_of_memory(error) or gpu_failure(error):
            raise
        raise UsageError(
            f"a training step cannot be captured as a CUDA graph: {first_cause(error)}. Train with "
            "--no-graph, which is slower; if the method and the net are built in, please report "
            "this."
        ) from error


def first_cause(error: BaseException) -> str:
    """The message of the first error of a chain: later ones only say that the capture failed."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).partition("\n")[0].rstrip(".")


def capturing(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def another(here: torch.cuda.Stream) -> torch.cuda.Stream:
    """A stream other than this one; torch hands out 32 streams in turn."""
    streams = (torch.cuda.Stream(here.device) for _ in range(2))  # type: ignore[no-untyped-call]
    return next(stream for stream in streams if stream != here)


class Branch(Protocol):
    """Runs some work in parallel with the rest, and returns its result."""

    def __call__(self, work: Callable[[], Result], /) -> Result: ...


@contextmanager
def branch_of(x: Tensor) -> Iterator[Branch]:
    """Work given to the branch runs in parallel with what else is done in here; both are joined
    at the end, and only then may its results be read.

    Neither may write what the other reads. Outside of a capture the work is done in order.
    """
    if not capturing(x):
        yield partial(without_autocast_cache, x)
        return
    here, results = torch.cuda.current_stream(), list[object]()
    branch = another(here)

    def beside(work: Callable[[], Result]) -> Result:
        with torch.cuda.stream(branch):
            results.append(result := without_autocast_cache(x, work))
        return result

    branch.wait_stream(here)
    OPEN.append(branch)
    yield beside
    here.wait_stream(branch)
    OPEN.remove(branch)
    read_on(here, results)


def read_on(here: torch.cuda.Stream, results: object) -> None:
    """Keep the memory of tensors that another stream made until this stream has read them.

    Torch has 32 streams in all: another engine of the capture may use the same one, and must not
    be given that memory before.
    """
    for result in pytree.tree_leaves(results):
        if isinstance(result, Tensor):
            result.record_stream(here)


def without_autocast_cache(x: Tensor, work: Callable[[], Result]) -> Result:
    """Run it without autocast's cache of rounded weights, which ignores streams: a weight that a
    branch rounds could be read outside of it before it is ready.
    """
    device = x.device.type
    if not torch.is_autocast_enabled(device):
        return work()
    with torch.autocast(device, torch.get_autocast_dtype(device), cache_enabled=False):
        return work()


def join_all() -> None:
    """Join the open branches after a step failed during its capture.

    Torch can only end a capture that has none, and its allocator and its generator do not work
    after a capture that did not end.
    """
    while OPEN:
        torch.cuda.current_stream().wait_stream(OPEN.pop())


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
        return min(MOST_HELD, torch.cuda.get_device_properties(device).total_memory // SHARE_HELD)

    def join(self, *results: Tensor) -> None:
        """Wait for the second stream, whose results may be read from here on."""
        if self.stream is None:
            return
        here = torch.cuda.current_stream()
        here.wait_stream(self.stream)
        OPEN.remove(self.stream)
        self.stream = None
        self.held.clear()
        read_on(here, results)
