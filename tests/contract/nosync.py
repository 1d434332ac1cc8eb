"""A mode under which whatever would make the host wait for a device is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
WAITING = {
    aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.bincount, aten.equal,
    aten.is_nonzero, aten._unique2, aten.unique_dim, aten.repeat_interleave, aten.randperm,
}  # fmt: skip
INDEXING = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
READING = ("item", "tolist", "numpy", "__bool__", "__float__", "__int__", "__index__")


class Waits(AssertionError):
    """The step would have waited for the device."""


class _Mode(TorchDispatchMode):
    def __init__(self, also: tuple[str, ...]) -> None:
        super().__init__()
        self.also = also

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in WAITING or any(name in func.__name__ for name in self.also):
            raise Waits(str(func))
        if func.overloadpacket in INDEXING:
            masks = [i for i in args[1] if i is not None and i.dtype in (torch.bool, torch.uint8)]
            if masks:
                raise Waits(f"{func} with a mask: its size depends on the data")
        return func(*args, **(kwargs or {}))


@contextmanager
def no_sync(*also: str) -> Iterator[None]:
    """Forbid host reads and data-dependent shapes, also those that skip the dispatcher.

    With `also`, operators that have one of these words in their names are forbidden as well.
    """

    def refuse(name: str) -> Any:
        def read(*args: Any, **kwargs: Any) -> Any:
            raise Waits(f"Tensor.{name}")

        return read

    with _Mode(also), mock.patch.multiple(torch.Tensor, **{n: refuse(n) for n in READING}):
        yield
