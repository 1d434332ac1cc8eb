"""Compiles the Triton kernels of some work side by side, by going through it without them.

Each would otherwise be compiled when it is first started, while all others wait.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

_under_way = False


def under_way() -> bool:
    """Whether kernels are to be left out at present."""
    return _under_way


@contextmanager
def rehearsing() -> Iterator[None]:
    """A kernel that is started in here is only compiled, beside the others; all are at the end.

    What they would have written is undefined. One that cannot be compiled says so when it is really
    started.
    """
    global _under_way
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
        JITFunction.run, _under_way = compile_only, True
        try:
            yield
        finally:
            JITFunction.run, _under_way = start, False
