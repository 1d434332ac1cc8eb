"""Read the CIFAR batches, which are Python 2 pickles, without the power to run anything."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError


class _Dtype:
    """Stands for `numpy.dtype`; only its type string matters."""

    def __init__(self, kind: bytes = b"", *_: object) -> None:
        self.kind = kind

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """Stands for `numpy.ndarray`; keeps the state, and builds the array when asked."""

    def __init__(self) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def to_numpy(self) -> npt.NDArray[np.uint8]:
        _version, shape, dtype, fortran, content = self.state
        if not isinstance(dtype, _Dtype) or dtype.kind != b"u1" or fortran:
            raise ValueError("the array is not made of bytes in C order")
        return np.frombuffer(content, np.uint8).reshape(shape)


def _reconstruct(*_: object) -> _Array:
    return _Array()


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
}


class _Unpickler(pickle.Unpickler):
    """Knows three names, all of them stand-ins defined here; every other one is refused."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def load_dict(content: bytes, where: str) -> dict[str, Any]:
    """The dictionary in a CIFAR pickle: its arrays as NumPy arrays, its strings as bytes."""
    try:
        found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        return {
            key.decode("ascii"): value.to_numpy() if isinstance(value, _Array) else value
            for key, value in found.items()
        }
    except Exception as error:  # a doctored stream can raise anything
        raise DataError(f"{where} is not a CIFAR batch and was not read: {error}") from None
