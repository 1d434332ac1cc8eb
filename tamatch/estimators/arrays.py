"""What X and y hold: images or rows of numbers, and labels that may be missing."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data import UNKNOWN


def are_images(X: Any) -> bool:
    """Whether X has more than the two axes of a table."""
    axes: int = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    return axes > 2


def validation_rules(images: bool) -> dict[str, Any]:
    """How scikit-learn shall check X."""
    if images:
        return {"dtype": None, "ensure_2d": False, "allow_nd": True}
    return {"dtype": np.float64}


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
