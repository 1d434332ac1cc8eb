"""GPU generations, and whether GPU code can be compiled on this machine."""

from __future__ import annotations

import os
from functools import cache

AMPERE = (8, 0)  # the first with tensor cores for bfloat16


def own_kernels(wanted: bool) -> bool:
    """Whether to use the package's own kernels; TAMATCH_KERNELS=0 turns all of them off."""
    return wanted and os.environ.get("TAMATCH_KERNELS") != "0"


@cache
def why_no_triton() -> str | None:
    """Why Triton cannot compile, None if it can; called only where there is a GPU."""
    from torch.utils._triton import has_triton, triton_backend

    if not has_triton():
        return "Triton is missing or does not support this GPU"
    try:
        triton_backend()  # compiles the few lines of C that every kernel is started by
    except Exception as error:  # each step of that fails in a way of its own
        why = (str(error) or type(error).__name__).splitlines()[0]
        return f"Triton needs a C compiler and Python's header files: {why:.120}"
    return None


@cache
def why_no_nvrtc() -> str | None:
    """Why NVRTC, which comes with torch for CUDA, cannot compile CUDA C++; None if it can."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, OSError, RuntimeError) as error:
        why = (str(error) or type(error).__name__).splitlines()[0]
        return f"NVIDIA's compiler NVRTC cannot be used: {why:.120}"
    return None
