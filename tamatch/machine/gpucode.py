"""Kinds of GPUs, and whether code for that of this machine can be compiled on it."""

from __future__ import annotations

from functools import cache

AMPERE = (8, 0)  # the first with tensor cores for bfloat16


@cache
def obstacle() -> str | None:
    """What stands in the way, None if nothing does; asked only where there is a GPU."""
    from torch.utils._triton import has_triton, triton_backend

    if not has_triton():
        return "Triton is missing or does not know this GPU"
    try:
        triton_backend()  # compiles the few lines of C that every kernel is started by
    except Exception as error:  # each step of that fails in a way of its own
        why = (str(error) or type(error).__name__).splitlines()[0]
        return f"Triton needs a C compiler and the header files of Python: {why:.120}"
    return None


@cache
def handicap() -> str | None:
    """Why CUDA C++ cannot be compiled, None if it can: NVRTC comes with torch for CUDA."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, OSError, RuntimeError) as error:
        why = (str(error) or type(error).__name__).splitlines()[0]
        return f"NVIDIA's compiler NVRTC cannot be used: {why:.120}"
    return None
