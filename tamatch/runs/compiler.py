"""Torch's compiler: whether it is there, and that what it made for one run serves the next."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..data.cache import cache_folder
from ..errors import DataError
from ..machine.gpu import why_no_nvrtc, why_no_triton

if TYPE_CHECKING:
    from ..methods.base import Method
    from ..nets.base import Net

COMPILED_RUNS = 1024  # kept side by side; with torch's default of 8, the ninth is not compiled
REPAID = 25_000  # steps that repay compiling a net: some 35 s once, for 1.4 to 2.6 ms of each step
LONG = 100_000  # steps that repay compiling a method: some 15 s once, for 0.15 ms of each step
CACHE_FOLDERS = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}


def accelerate(
    net: Net, method: Method, steps: int, say: Callable[[str], None], *, kernels: bool = True
) -> None:
    """Compile each of the two where that is possible, and the run long enough to repay it."""
    why = why_no_triton()
    so = "Steps are not compiled and take longer. --no-compile silences this message."
    if why is None:
        net.accelerate(compiling=steps >= REPAID, kernels=kernels)
        if steps >= LONG:
            method.accelerate()
        why = why_no_nvrtc() if net.has_cuda_code else None
        so = (
            "Steps take about a fifth longer. pip install cuda-bindings nvidia-cuda-nvrtc may help."
        )
    if why is not None:
        say(f"{why}. {so}")


def keep_compiled() -> None:
    """Keep kernels in `compiled` in the cache folder, unless the user's environment says where.

    The folder can be copied to another machine with the same GPU and versions: its runs start
    without compiling.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = COMPILED_RUNS
    try:
        folder = cache_folder() / "compiled"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, DataError):
        return  # then they are where torch puts them
    for variable, name in CACHE_FOLDERS.items():
        os.environ.setdefault(variable, str(folder / name))
