"""Failures of the GPU: after one, nothing that is in its memory can be used, or saved."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from ..errors import DeviceError

# as torch, Triton and our own kernels' launcher begin them
KINDS = ("CUDA error: ", "CUDA driver error: ", "Triton Error [CUDA]: ", "CUDA: <CUresult.")
LIBRARIES = ("cuDNN error: ", "CUBLAS_STATUS_EXECUTION_FAILED", "CUDNN_STATUS_EXECUTION_FAILED")
CAPTURE = "captur"  # in what is not allowed while a step is recorded: the GPU is well


def gpu_failure(error: BaseException | None) -> DeviceError | None:
    """What it, or an error that led to it, says in one line; None if it is no failure of a GPU."""
    for one in _chain(error):
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
