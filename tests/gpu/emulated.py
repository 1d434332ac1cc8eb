"""The CUDA kernels on a CPU: compiled as C++, a block's threads as fibers (`simt.hpp`)."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tamatch
from tamatch.nets.parts import SLOPE

HERE = Path(__file__).parent
CUDA = Path(tamatch.__file__).parent / "nets" / "kernels" / "conv3.cu"
COMPILER = shutil.which("g++")
GROUPS = 32
BOOLS = "false", "true"
KERNELS = [
    *(f"forward<{c}, {n}, {a}>" for c in (32, 64) for n in BOOLS for a in BOOLS),
    *(f"backward<{c}, {n}, {a}>" for c in (32, 64) for n in BOOLS for a in BOOLS),
    "weight_gradient", "add_up",
]  # fmt: skip
START = """
template <class... A, std::size_t... I>
std::function<void()> bound(void (*kernel)(A...), void **given, std::index_sequence<I...>) {
    return [=] { kernel(*static_cast<A *>(given[I])...); };
}
template <class... A>
void call(void (*kernel)(A...), int blocks, int threads, int seed, void **given) {
    launch(blocks, threads, seed, bound(kernel, given, std::index_sequence_for<A...>()));
}
extern "C" void start(const char *name, int blocks, int threads, int seed, void **given) {
    BRANCHES
}
"""


def build(folder: Path) -> Callable[..., Callable[..., None]]:
    """Compile the kernels; given the name of one, what comes back starts it as torch would."""
    branches = (
        f'if (!strcmp(name, "{name}")) return call({name}, blocks, threads, seed, given);'
        for name in KERNELS
    )
    text = (HERE / "simt.hpp").read_text() + CUDA.read_text()
    (folder / "kernels.cpp").write_text(text + START.replace("BRANCHES", "\n    ".join(branches)))
    command = [
        COMPILER or "g++", "-std=c++17", "-O2", "-ffp-contract=off", "-shared", "-fPIC",
        f"-DGROUPS={GROUPS}", f"-DSLOPE={SLOPE}f", "-o", "kernels.so", "kernels.cpp",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(folder / "kernels.so"))

    def kernel(name: str, seed: int = 0) -> Callable[..., None]:
        assert name in KERNELS, name

        def start(grid: tuple[int, ...], block: tuple[int, ...], args: list[Any]) -> None:
            values = [as_c(value) for value in args]
            given = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
            library.start(name.encode(), grid[0], block[0], seed, given)

        return start

    return kernel


def as_c(value: Any) -> Any:
    """As `torch.cuda` passes arguments to a kernel."""
    if value is None or isinstance(value, Tensor):
        return ctypes.c_void_p(None if value is None else value.data_ptr())
    return ctypes.c_int(value) if isinstance(value, int) else ctypes.c_double(value)


def channels_last(*shape: int) -> Tensor:
    return torch.randn(*shape).bfloat16().to(memory_format=torch.channels_last)
