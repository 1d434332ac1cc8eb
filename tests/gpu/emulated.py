"""The CUDA kernels on a CPU: compiled as C++, a block's threads as fibers (`simt.hpp`)."""

from __future__ import annotations

import ctypes
import mmap
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tamatch
from tamatch.nets.wrn import SLOPE

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
bool call(void (*kernel)(A...), int blocks, int threads, int seed, void **given) {
    return launch(blocks, threads, seed, bound(kernel, given, std::index_sequence_for<A...>()));
}
extern "C" bool start(const char *name, int blocks, int threads, int seed, void **given) {
    BRANCHES
    return false;
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
    library.start.restype = ctypes.c_bool

    def kernel(name: str, seed: int = 0) -> Callable[..., None]:
        assert name in KERNELS, name

        def start(grid: tuple[int, ...], block: tuple[int, ...], args: list[Any]) -> None:
            fenced = {v.data_ptr(): Fenced(v) for v in args if isinstance(v, Tensor)}
            values = [as_c(value, fenced) for value in args]
            given = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
            inside = library.start(name.encode(), grid[0], block[0], seed, given)
            assert inside, f"{name} touches memory outside of its tensors"
            for memory in fenced.values():
                memory.copy_back()

        return start

    return kernel


class Fenced:
    """A copy of a tensor between pages that cannot be touched.

    It ends where a page ends. What lies between the page before it and its first byte, nothing for
    a map, is NaN and must stay so.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, size = tensor, tensor.numel() * tensor.element_size()
        room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.memory = mmap.mmap(-1, room + 2 * mmap.PAGESIZE)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for page in (first, first + mmap.PAGESIZE + room):
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), mmap.PAGESIZE, 0) == 0
        self.before, self.size, self.gap = first + mmap.PAGESIZE, size, room - size
        ctypes.memset(self.before, 0xFF, self.gap)
        ctypes.memmove(self.before + self.gap, tensor.data_ptr(), size)

    def copy_back(self) -> None:
        assert ctypes.string_at(self.before, self.gap) == b"\xff" * self.gap
        ctypes.memmove(self.tensor.data_ptr(), self.before + self.gap, self.size)


def as_c(value: Any, fenced: dict[int, Fenced]) -> Any:
    """As `torch.cuda` passes arguments to a kernel."""
    if isinstance(value, Tensor):
        memory = fenced[value.data_ptr()]
        return ctypes.c_void_p(memory.before + memory.gap)
    if value is None:
        return ctypes.c_void_p(None)
    return ctypes.c_int(value) if isinstance(value, int) else ctypes.c_double(value)


def channels_last(*shape: int) -> Tensor:
    return torch.randn(*shape).bfloat16().to(memory_format=torch.channels_last)
