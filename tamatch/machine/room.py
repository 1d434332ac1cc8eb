"""Noticing that the device has no memory left, and getting by with what there is."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from ..errors import UsageError

# What torch says where it has no class of errors for it: a CPU's allocator, and CUDA's libraries.
SAID = (
    "DefaultCPUAllocator", "FIND was unable to find an engine", "GET was unable to find an engine",
    "CUDA error: out of memory", "CUDA driver error: out of memory",
    "Triton Error [CUDA]: out of memory", "CUDA_ERROR_OUT_OF_MEMORY",
    "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
)  # fmt: skip


class NoRoom(UsageError):
    """The device has too little memory for the batch."""


class Rows(Protocol):
    """Anything that hands out slices of its rows."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> Tensor: ...


@contextmanager
def noticing() -> Iterator[None]:
    """Where torch cannot get memory, raise `NoRoom`."""
    try:
        yield
    except RuntimeError as error:
        if not speaks_of_room(error):
            raise
        raise NoRoom("out of memory: use a smaller --batch and --unlabelled.") from error


def speaks_of_room(error: BaseException | None) -> bool:
    """Also an error that came of another one: a capture that fails says no more than that."""
    return error is not None and (
        isinstance(error, NoRoom | torch.OutOfMemoryError)
        or any(text in str(error) for text in SAID)
        or speaks_of_room(error.__context__)
    )


def clear() -> None:
    """Get back what is no longer used, as after a failure; to be called outside of `except`."""
    gc.collect()  # an error may be gone, but what it held lives on in circles
    torch.cuda.empty_cache()


@contextmanager
def no_search() -> Iterator[None]:
    """Let nothing look for the fastest convolution: it does not pay for a pass or two.

    Nor can it be done in a capture, where cuDNN would look again if the one it knows has no room.
    """
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def in_pieces(work: Callable[[Tensor], Tensor], rows: Rows, size: int) -> list[Tensor]:
    """`work` on `size` rows at a time; from where these have no room, on half as many."""
    found: list[Tensor] = []
    first = 0
    while first < len(rows):
        try:
            with noticing():
                found.append(work(rows[first : first + size]))
            first += size
            continue
        except NoRoom:
            if size == 1:
                raise
        clear()
        size //= 2
    return found
