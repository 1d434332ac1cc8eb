"""Kernels in CUDA C++, compiled by NVRTC when first used and kept where Triton keeps its own."""

from __future__ import annotations

import ctypes
import hashlib
import warnings
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from torch import Tensor
from triton.runtime.cache import get_cache_manager

from ...machine import gpu
from ...machine.gpu import AMPERE, why_no_nvrtc
from ...machine.memory import is_out_of_memory
from ..wrn import SLOPE
from .norm import COUNTABLE

SOURCES = [Path(__file__).with_name(name) for name in ("primitives.cuh", "conv3.cu")]
GROUPS = 32  # rows, at most, of a map's statistics
ROWS, COLUMNS = 8, {32: 32, 64: 16}  # pixels of a tile, by channels
HOPPER = (9, 0)  # the first whose kernels can wait for the one before them
BOOLS = "false", "true"
NAMES = (
    *(f"forward<{c}, {n}, {a}>" for c in COLUMNS for n in BOOLS for a in BOOLS),
    *(f"backward<{c}, {n}, {a}>" for c in COLUMNS for n in BOOLS for a in BOOLS),
    "weight_gradient",
    "add_up",
)


def fits(x: Tensor, weight: Tensor, stride: int) -> bool:
    """Whether the kernels know this convolution of this map."""
    channels, height, width = x.shape[1:]
    return (
        weight.shape == (channels, channels, 3, 3)
        and stride == 1
        and channels in COLUMNS
        and height % ROWS == width % COLUMNS[channels] == 0
        and x.dtype == torch.bfloat16
        and 0 < x.numel() <= COUNTABLE
        and usable(x.device)
    )


def capable(device: torch.device) -> bool:
    """Whether the device has what the kernels need."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= AMPERE


def usable(device: torch.device) -> bool:
    """Whether it is capable and the kernels compile; a rehearsal does not wait for the latter."""
    there = capable(device) and why_no_nvrtc() is None  # which was told before
    return there and (gpu.is_rehearsing() or compiles(device))


@cache
def compiles(device: torch.device) -> bool:
    """Whether NVRTC compiles them, once it is asked."""
    try:
        loaded(device)
    except (OSError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise
        warnings.warn(f"The CUDA kernels cannot be used, steps take longer: {error}", stacklevel=2)
        return False
    return True


def tiles_of(x: Tensor) -> int:
    """The number of tiles in a map."""
    count, channels, height, width = x.shape
    return count * (height // ROWS) * (width // COLUMNS[channels])


def start(
    name: str, device: torch.device, blocks: int, threads: int, *arguments: Any, early: bool = False
) -> None:
    """Start a kernel by its name, with its traits in angle brackets.

    `early`: it may begin before the one before it has ended, as it waits for that itself.
    """
    if gpu.is_rehearsing():
        return
    from cuda.bindings import driver

    values = tuple(a.data_ptr() if isinstance(a, Tensor) else a or 0 for a in arguments)
    kinds = tuple(kind_of(argument) for argument in arguments)
    launch = driver.CUlaunchConfig()
    launch.gridDimX, launch.blockDimX = blocks, threads
    launch.gridDimY = launch.gridDimZ = launch.blockDimY = launch.blockDimZ = 1
    launch.hStream = torch.cuda.current_stream(device).cuda_stream
    if early and torch.cuda.get_device_capability(device) >= HOPPER:
        chosen = driver.CUlaunchAttribute()
        chosen.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        chosen.value.programmaticStreamSerializationAllowed = 1
        launch.attrs, launch.numAttrs = [chosen], 1
    done(driver.cuLaunchKernelEx(launch, loaded(device)[name], (values, kinds), 0))


def kind_of(argument: Any) -> Any:
    """The C type under which a kernel receives a value."""
    if argument is None or isinstance(argument, Tensor):
        return ctypes.c_void_p
    return ctypes.c_int if isinstance(argument, int) else ctypes.c_double


@cache
def loaded(device: torch.device) -> dict[str, Any]:
    """All kernels by their names, ready to be started on this device."""
    from cuda.bindings import driver

    with torch.cuda.device(device):
        torch.cuda.current_stream().synchronize()  # torch has its context there now
        binary, symbols = compiling(device).result()
        module = done(driver.cuModuleLoadData(binary))
        pairs = zip(NAMES, symbols, strict=True)
        return {name: done(driver.cuModuleGetFunction(module, symbol)) for name, symbol in pairs}


@cache
def compiling(device: torch.device) -> Future[tuple[bytes, list[bytes]]]:
    """Compile for this device, beside whatever else is prepared for the first step."""
    architecture = "sm_{}{}".format(*torch.cuda.get_device_capability(device))
    outcome: Future[tuple[bytes, list[bytes]]] = Future()

    def work() -> None:
        try:
            outcome.set_result(compiled(architecture))
        except (ImportError, OSError, RuntimeError) as error:
            outcome.set_exception(error)

    Thread(target=work, daemon=True).start()  # a command that fails need not wait for it
    return outcome


def compiled(architecture: str) -> tuple[bytes, list[bytes]]:
    """All kernels as one binary for a GPU, and their names in it."""
    from cuda.bindings import nvrtc

    source = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    options = [f"-arch={architecture}", "-std=c++17", f"-DGROUPS={GROUPS}", f"-DSLOPE={SLOPE}f"]
    options.append("--split-compile=0")  # by as many threads as there are processors
    version = done(nvrtc.nvrtcVersion())
    everything = repr((source, options, NAMES, version)).encode()
    kept = get_cache_manager(hashlib.sha256(everything).hexdigest())
    files = kept.get_file("conv3.cubin"), kept.get_file("conv3.names")
    if all(files):
        binary, names = (Path(file).read_bytes() for file in files)
        return binary, names.split()
    program = done(nvrtc.nvrtcCreateProgram(source.encode(), b"conv3.cu", 0, [], []))
    for name in NAMES:
        done(nvrtc.nvrtcAddNameExpression(program, name.encode()))
    given = [option.encode() for option in options]
    try:
        done(nvrtc.nvrtcCompileProgram(program, len(given), given))
    except RuntimeError as error:
        log = bytes(done(nvrtc.nvrtcGetProgramLogSize(program)))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode(errors="replace")) from error
    binary = bytes(done(nvrtc.nvrtcGetCUBINSize(program)))
    done(nvrtc.nvrtcGetCUBIN(program, binary))
    symbols = [done(nvrtc.nvrtcGetLoweredName(program, name.encode())) for name in NAMES]
    kept.put(b"\n".join(symbols), "conv3.names")
    kept.put(binary, "conv3.cubin")
    return binary, symbols


def done(answer: tuple[Any, ...]) -> Any:
    """The values that a function of CUDA returned; an error if it failed."""
    error, *values = answer
    if int(error):
        raise RuntimeError(f"CUDA: {error!r}")
    return values[0] if len(values) == 1 else values
