"""The GPU: its failures, whether code for it can be compiled, and compiling that ahead of use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

from ..errors import DeviceError

# as torch, Triton and our own kernels' launcher begin them
KINDS = ("CUDA error: ", "CUDA driver error: ", "Triton Error [CUDA]: ", "CUDA: <CUresult.")
LIBRARIES = ("cuDNN error: ", "CUBLAS_STATUS_EXECUTION_FAILED", "CUDNN_STATUS_EXECUTION_FAILED")
CAPTURE = "captur"  # in what is not allowed while a step is recorded: the GPU is well
AMPERE = (8, 0)  # the first with tensor cores for bfloat16
_rehearsing = False


def gpu_failure(error: BaseException | None) -> DeviceError | None:
    """The failure of a GPU that an error or its cause reports, in one line; None if there is none.

    After one, nothing that is in the GPU's memory can be used or saved.
    """
    chain = [*_chain(error)]
    if chain and CAPTURE in str(chain[-1]):  # the first cause; later errors only follow from it
        return None
    for one in chain:
        text = str(one).partition("\n")[0].strip().rstrip(".")
        if not isinstance(one, RuntimeError) or CAPTURE in text:
            continue
        what = next((text.partition(kind)[2] for kind in KINDS if kind in text), "")
        if not what and any(library in text for library in LIBRARIES):
            what = text
        if what:
            return DeviceError(f"the GPU failed: {what}.")
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def leave(status: int) -> int:
    """End a process whose GPU failed without freeing what is there: each of torch's objects would
    complain, and some abort. A process that has used no GPU returns the status.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


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


def is_rehearsing() -> bool:
    """Whether kernels are only compiled at present, and not run."""
    return _rehearsing


@contextmanager
def rehearsing() -> Iterator[None]:
    """Compile the Triton kernels that are started in here, in parallel, without running them.

    Otherwise each would be compiled when it is first started, while the others wait. What they
    would have written is undefined. A kernel that cannot be compiled fails when it is really
    started.
    """
    global _rehearsing
    import torch
    from triton import AsyncCompileMode
    from triton.runtime.jit import JITFunction

    start = JITFunction.run

    def compile_only(kernel: Any, *arguments: Any, warmup: bool, **options: Any) -> Any:
        return start(kernel, *arguments, warmup=True, **options)

    here = torch.autograd.set_multithreading_enabled(False)  # the mode is of this thread alone
    with (
        ThreadPoolExecutor(os.cpu_count()) as pool,
        here,
        AsyncCompileMode(pool, ignore_errors=True),
    ):
        JITFunction.run, _rehearsing = compile_only, True
        try:
            yield
        finally:
            JITFunction.run, _rehearsing = start, False
