"""Noticing that the device has no memory left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .errors import UsageError

ON_CPU = "DefaultCPUAllocator"  # torch has no class of errors for it


class NoRoom(UsageError):
    """The device has too little memory for the batch."""


@contextmanager
def noticing() -> Iterator[None]:
    """Where torch cannot get memory, raise `NoRoom`."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and ON_CPU not in str(error):
            raise
        raise NoRoom("out of memory: use a smaller --batch and --unlabelled.") from error
