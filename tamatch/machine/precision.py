"""Where bfloat16 is fast, and full precision for parts of a run that otherwise uses it or TF32."""

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
