"""Reading named tensors from a file without running anything that is in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ..errors import UsageError
from ..storage.untrusted import read_npz

NESTED = ("model", "state_dict")  # keys under which training scripts keep the weights


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read every named tensor of a weight file, as it is; pickled code is refused, not run."""
    reader = READERS.get(path.suffix)
    if reader is None:
        raise UsageError(f"{path}: unsupported weight file. Supported: {', '.join(READERS)}.")
    if not path.is_file():
        raise UsageError(f"weight file {path} not found.")
    try:
        return reader(path)
    except Exception as error:  # a foreign or damaged file may fail in any way
        reason = str(error).strip().split("\n")[0]
        raise UsageError(
            f"{path} cannot be read as weights ({reason}). The file must be complete and contain "
            "only tensors: download it again, or save it again as safetensors."
        ) from error


def _read_npz(path: Path) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in read_npz(path).items()}


def _read_torch(path: Path) -> dict[str, Tensor]:
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:  # torch explains at length, in colours, how to load it all the same
        raise ValueError("it contains more than tensors, or is damaged") from None
    while isinstance(content, Mapping):
        inner = next((content[k] for k in NESTED if isinstance(content.get(k), Mapping)), None)
        if inner is None:
            return {str(k): v for k, v in content.items() if isinstance(v, Tensor)}
        content = inner
    raise ValueError(f"it contains a {type(content).__name__}, not named tensors")


READERS: dict[str, Callable[[Path], dict[str, Tensor]]] = {
    ".safetensors": load_file,
    ".npz": _read_npz,
    ".pth": _read_torch,
    ".pt": _read_torch,
}
