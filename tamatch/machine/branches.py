"""The stream of a captured step, and its branches: what runs beside the rest on another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from ..errors import UsageError
from .out_of_memory import is_out_of_memory, without_autotuning

Result = TypeVar("Result")
OPEN: list[torch.cuda.Stream] = []  # those that are not joined yet


@contextmanager
def working_on(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """Beside the default stream, which cannot be captured; after all before it, before all after.

    Nothing changes where it is the current one already, nor on a CPU, which has none.
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
    """What is done on the stream in here becomes the graph; none of it is run yet."""
    try:
        with without_autotuning(), torch.cuda.graph(graph, stream=stream):
            yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise UsageError(
            f"a training step cannot be recorded as a CUDA graph: {first_cause(error)}. Train with "
            "--no-graph, which takes longer; if method and net are tamatch's own, please report it."
        ) from error


def first_cause(error: BaseException) -> str:
    """Of an error that came of others, which say no more than that: the one that it began with."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).partition("\n")[0].rstrip(".")


def capturing(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def another(here: torch.cuda.Stream) -> torch.cuda.Stream:
    """Not this one: torch hands its 32 streams out in turn."""
    streams = (torch.cuda.Stream(here.device) for _ in range(2))  # type: ignore[no-untyped-call]
    return next(stream for stream in streams if stream != here)


class Branch(Protocol):
    """Does some work beside the rest, and hands its result back."""

    def __call__(self, work: Callable[[], Result], /) -> Result: ...


@contextmanager
def branch_of(x: Tensor) -> Iterator[Branch]:
    """The work that is given to the branch runs beside what else is done in here; then both are
    joined, and its results can be read.

    Neither may write what the other reads. Only in a capture: elsewhere it is done in order.
    """
    if not capturing(x):
        yield partial(remembering_nothing, x)
        return
    here, results = torch.cuda.current_stream(), list[object]()
    branch = another(here)

    def beside(work: Callable[[], Result]) -> Result:
        with torch.cuda.stream(branch):
            results.append(result := remembering_nothing(x, work))
        return result

    branch.wait_stream(here)
    OPEN.append(branch)
    yield beside
    here.wait_stream(branch)
    OPEN.remove(branch)
    read_on(here, results)


def read_on(here: torch.cuda.Stream, results: object) -> None:
    """What another stream of a capture has made is read on this one, and kept until then.

    Torch has 32 streams in all: another engine of the capture may have the same one, and must not
    get memory on it that is still read here.
    """
    for result in pytree.tree_leaves(results):
        if isinstance(result, Tensor):
            result.record_stream(here)


def remembering_nothing(x: Tensor, work: Callable[[], Result]) -> Result:
    """Do it with autocast as it is, but for the rounded weights that it keeps: it knows no streams,
    and what a branch has rounded would be read outside of it before it is there.
    """
    device = x.device.type
    if not torch.is_autocast_enabled(device):
        return work()
    with torch.autocast(device, torch.get_autocast_dtype(device), cache_enabled=False):
        return work()


def join_all() -> None:
    """After a step that failed while it was captured: torch can only end a capture whose branches
    are joined, and neither its allocator nor its generator work after one that did not end.
    """
    while OPEN:
        torch.cuda.current_stream().wait_stream(OPEN.pop())
