"""Memory: errors for the lack of it, working in smaller batches, and a container's limit."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from ..errors import UsageError

# in messages of errors that are no torch.OutOfMemoryError: the CPU's allocator, CUDA's libraries
MESSAGES = (
    "DefaultCPUAllocator", "Storage size calculation overflowed",
    "FIND was unable to find an engine", "GET was unable to find an engine",
    "CUDA error: out of memory", "CUDA driver error: out of memory",
    "Triton Error [CUDA]: out of memory", "CUDA_ERROR_OUT_OF_MEMORY",
    "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
)  # fmt: skip
GROUPS = Path("/sys/fs/cgroup")  # where they are mounted
OWN = Path("/proc/self/cgroup")  # those of this process


class OutOfMemory(UsageError):
    """The device has too little memory for the batch."""


class Rows(Protocol):
    """Anything that hands out slices of its rows."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> Tensor: ...


@contextmanager
def detecting_out_of_memory(
    advice: str = "use a smaller --batch and --unlabelled",
) -> Iterator[None]:
    """Turn torch's errors for a lack of memory into `OutOfMemory`, with what helps against it."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(f"out of memory: {advice}.") from error


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether it, or an error that led to it, is one: a failed capture hides its cause."""
    return error is not None and (
        isinstance(error, OutOfMemory | torch.OutOfMemoryError | MemoryError)  # the last: NumPy
        or any(text in str(error) for text in MESSAGES)
        or is_out_of_memory(error.__context__)
    )


def free_memory() -> None:
    """Free unused memory. Call it after `except`, not inside: the error refers to tensors."""
    gc.collect()  # tensors of a failed step may be left in reference cycles
    torch.cuda.empty_cache()


@contextmanager
def without_autotuning() -> Iterator[None]:
    """Switch cuDNN's search for the fastest convolution off: it does not pay for a pass or two.

    In a capture it is impossible, and cuDNN would search again if its choice lacked memory.
    """
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def in_batches(work: Callable[[Tensor], Tensor], rows: Rows, size: int) -> list[Tensor]:
    """`work` on `size` rows at a time; after an `OutOfMemory`, on half as many."""
    found: list[Tensor] = []
    first = 0
    while first < len(rows):
        try:
            with detecting_out_of_memory():
                found.append(work(rows[first : first + size]))
            first += size
            continue
        except OutOfMemory:
            if size == 1:
                raise
        free_memory()
        size //= 2
    return found


def memory_limit() -> float:
    """Bytes that a container or a cluster's job may take, by Linux's control groups; or infinity.

    The system ends a process that takes more.
    """
    return min(_limits(), default=math.inf)


def _limits() -> Iterator[float]:
    """The limits of this process's group and its parents, in both versions of the interface."""
    try:
        lines = OWN.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = GROUPS / "memory" if controllers else GROUPS
        place = top / group.lstrip("/")
        # up to `top`, which in a container is all that there is to see of its group
        for folder in (f for f in (place, *place.parents) if f.is_relative_to(top)):
            with suppress(OSError):
                file = folder / ("memory.limit_in_bytes" if controllers else "memory.max")
                text = file.read_text().strip()
                if text.isdecimal():  # not "max"
                    yield int(text)
