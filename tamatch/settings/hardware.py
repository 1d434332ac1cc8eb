"""The device a run uses and the arithmetic it does there."""

import os
import re
from typing import Literal

import torch

from ..errors import UsageError
from ..machine import launch
from ..machine.gpu import AMPERE
from ..machine.memory import memory_limit
from .config import Run

IMAGES_SHARE = 0.5  # of the memory; the rest is for the net and what it computes


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one; each of several processes has its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise UsageError(f"--device takes auto, cpu, cuda or cuda:N; got {name!r}.")
    device = torch.device(name)
    if device.type == "cpu":
        return device
    if not torch.cuda.is_available():
        raise UsageError(f"--device {name}: torch {torch.__version__} finds no usable GPU.")
    if (device.index or 0) >= (there := torch.cuda.device_count()):
        raise UsageError(f"--device {name}: this machine has {there} GPUs, numbered from cuda:0.")
    return own_gpu(device) if launch.processes() > 1 else device


def own_gpu(device: torch.device) -> torch.device:
    """The GPU of one of several processes on a machine."""
    if device.index is not None:
        raise UsageError(
            f"--device {device} is one GPU, but each process needs its own: use --device cuda."
        )
    processes, there = launch.local_processes(), torch.cuda.device_count()
    if processes > there:
        raise UsageError(
            f"{processes} processes need {processes} GPUs, but this machine has {there}: use "
            "torchrun --nproc-per-node gpu, or --device cpu."
        )
    own = torch.device("cuda", launch.local_rank())
    torch.cuda.set_device(own)
    return own


def pick_precision(run: Run, device: torch.device) -> str:
    """bf16 on a GPU that multiplies it itself, else fp32, unless the user says otherwise."""
    if run.precision != "auto":
        return run.precision
    able = device.type == "cuda" and torch.cuda.get_device_capability(device) >= AMPERE
    return "bf16" if able else "fp32"


def set_up_torch(precision: str, *, deterministic: bool = False) -> torch.dtype | None:
    """Set torch's switches; returns the type for autocast, None for full precision."""
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    # A GPU's fastest kernels may add in another order each time.
    torch.backends.cudnn.benchmark = not deterministic
    torch.backends.cudnn.benchmark_limit = 0  # of kernels to measure: all
    torch.backends.cudnn.deterministic = deterministic
    if deterministic != torch.are_deterministic_algorithms_enabled():  # it loads the compiler
        torch.use_deterministic_algorithms(deterministic, warn_only=True)
    torch.backends.cuda.enable_flash_sdp(not deterministic)  # attention's fused kernels
    torch.backends.cuda.enable_mem_efficient_sdp(not deterministic)
    torch.backends.cuda.enable_cudnn_sdp(not deterministic)
    if deterministic:  # read by cuBLAS when it starts
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    return torch.bfloat16 if precision == "bf16" else None


def pick_images(run: Run, pixels: int, device: torch.device) -> Literal["device", "stream"]:
    """On the device where this many bytes of them fit, unless the user says otherwise."""
    if run.images != "auto":
        return run.images
    return "device" if pixels <= IMAGES_SHARE * available_memory(device) else "stream"


def available_memory(device: torch.device) -> int:
    """Bytes that this process may still allocate on a GPU; on a CPU, all it may use."""
    if device.type != "cuda":
        return int(min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), memory_limit()))
    allocated, reserved = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
    free, total = torch.cuda.mem_get_info(device)
    allowed = int(torch.cuda.get_per_process_memory_fraction(device.index) * total)
    return min(free + reserved, allowed) - allocated
