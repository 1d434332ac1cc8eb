"""What decides the last bits of a result: the precision, and the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


def native_bf16() -> bool:
    """Whether this CPU multiplies bfloat16 itself; older versions of torch cannot tell."""
    able: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(able.get(name) for name in ("avx512_bf16", "amx_bf16"))


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Autocast off; nothing where it is off already, as torch.export would record the region."""
    autocast = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if autocast else nullcontext()


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """No bfloat16 and no TF32, whatever the run's precision."""
    cudnn, matmul = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    try:
        with without_autocast(device):
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = cudnn
        torch.set_float32_matmul_precision(matmul)


@contextmanager
def restoring_threads() -> Iterator[None]:
    """Restore the number of threads afterwards.

    A run may set it. The next run in the same process would start with that number, and its last
    bits would differ.
    """
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
