"""Where code of the user's makes the host wait for the device: no CUDA graph can capture that."""

from __future__ import annotations

import traceback
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import usercode

aten = torch.ops.aten
SYNCHRONISING = {
    aten._local_scalar_dense, aten.is_nonzero, aten.equal, aten.nonzero, aten.masked_select,
    aten.bincount, aten._unique2, aten.unique_dim,
}  # fmt: skip
COPIES = {Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.cpu}


class SyncDetector(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While active, notes the first place that reads a value or makes a shape from values."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.place: str | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = func.overloadpacket
        if packet in SYNCHRONISING or (packet is aten.index and masked(args[1])):
            self.note()
        return func(*args, **(kwargs or {}))

    def note(self) -> None:
        """Keep the line that is being executed, if it is the first."""
        if self.place is None:
            self.place = (
                usercode.innermost_user_line(traceback.extract_stack()) or "in a layer of its own"
            )


class CopyDetector(TorchFunctionMode):
    """While active, also notes copies to the host, which are no operation on a CPU."""

    def __init__(self, found: SyncDetector) -> None:
        super().__init__()
        self.found = found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in COPIES:
            self.found.note()
        return func(*args, **(kwargs or {}))


def masked(indices: Any) -> bool:
    """As in `x[x > 0]`: how many there are is not known before it is computed."""
    return any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices)


def first_sync(net: nn.Module, images: Tensor) -> str | None:
    """File and line of the first synchronisation that a pass on the CPU shows; None without one."""
    detector = SyncDetector()
    with detector:
        net(images)
    return detector.place
