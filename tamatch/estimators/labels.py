"""Which labels in y are missing."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data import UNKNOWN


def check_none_missing(y: Any) -> None:
    """Refuse other signs of a missing label: NumPy makes a class of NaN in a list of names."""
    mixed = isinstance(y, list | tuple) or getattr(y, "dtype", None) == np.dtype(object)
    for label in y if mixed else ():
        if label is None or (isinstance(label, Real) and label != label):
            raise ValueError(f"y contains {label}. Unlabelled rows have -1, or the text '-1'.")


def is_unlabelled(y: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where y is -1; among names also as text, which NumPy makes of it in a list of names."""
    if y.dtype == object:
        marks = (UNKNOWN, str(UNKNOWN))
        return np.array([isinstance(v, Real | str) and v in marks for v in y], bool)
    mark = str(UNKNOWN) if y.dtype.kind == "U" else UNKNOWN
    return np.asarray(y == mark, bool) if y.dtype.kind in "iufU" else np.zeros(len(y), bool)
