"""The number of torch's threads, which belongs to the user and not to a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def restoring_threads() -> Iterator[None]:
    """A run may set the number in here; it comes out as it went in.

    The next run in the same process would otherwise start with it, and end with other bits.
    """
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
