"""Kernels in CUDA C++, compiled when they are first used."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .norm import COUNTABLE, SLOPE

SOURCES = [Path(__file__).with_name(name) for name in ("primitives.cuh", "conv3.cu")]
GROUPS = 32  # rows, at most, of a map's statistics
ROWS, COLUMNS = 8, {32: 32, 64: 16, 128: 8}  # pixels of a tile, by channels
AMPERE = (8, 0)  # the first with tensor cores for bfloat16


def fits(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether the kernels know this convolution of this map."""
    channels, height, width = x.shape[1:]
    return (
        weight.shape == (channels, channels, 3, 3)
        and stride == 1
        and channels in COLUMNS
        and height % ROWS == width % COLUMNS[channels] == 0
        and x.dtype == torch.bfloat16
        and x.numel() <= COUNTABLE
        and usable(x.device)
    )


@cache
def usable(device: torch.device) -> bool:
    """Whether torch can compile such kernels here, and the GPU has what they need."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < AMPERE:
        return False
    try:
        compiled("add_up", device, SLOPE)
    except (AttributeError, OSError, RuntimeError):  # its interface may change; no NVRTC; too old
        return False
    return True


def tiles_of(x: Tensor) -> int:
    """How many there are in a map."""
    count, channels, height, width = x.shape
    return count * (height // ROWS) * (width // COLUMNS[channels])


def start(name: str, device: torch.device, blocks: int, threads: int, *arguments: Any) -> None:
    """Start a kernel by its name, with its traits in angle brackets."""
    kernel = compiled(name, device, SLOPE)
    kernel(grid=(blocks, 1, 1), block=(threads, 1, 1), args=[*arguments])


@cache
def compiled(name: str, device: torch.device, slope: float) -> Any:
    source = "".join(path.read_text() for path in SOURCES)
    options = ["-std=c++17", f"-DGROUPS={GROUPS}", f"-DSLOPE={slope}f"]
    with torch.cuda.device(device):
        return torch.cuda._compile_kernel(source, name, nvcc_options=options)
