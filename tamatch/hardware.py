"""The device a run uses and the arithmetic it does there."""

from __future__ import annotations

import torch

from .config import Run
from .errors import UsageError


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"--device takes auto, cpu, cuda or cuda:N; got {name!r}.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"--device {name}: no GPU that torch {torch.__version__} can use.")
    return device


def pick_precision(run: Run, device: torch.device) -> str:
    """bf16 on a GPU, fp32 on a CPU, unless the user says otherwise."""
    if run.precision != "auto":
        return run.precision
    return "bf16" if device.type == "cuda" else "fp32"


def prepare(precision: str) -> torch.dtype | None:
    """Set torch's switches; returns the autocast type, None for full precision."""
    torch.set_float32_matmul_precision("highest" if precision == "fp32" else "high")
    torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    return torch.bfloat16 if precision == "bf16" else None
