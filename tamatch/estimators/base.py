"""What the scikit-learn classifiers share: X and y are checked, and labels may be missing."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
from sklearn.utils import _safe_indexing  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import validate_data  # type: ignore[import-untyped]

from ..data import UNKNOWN

Array = npt.NDArray[Any]


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that learns from rows with and without a label."""

    classes_: Array

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        raise NotImplementedError

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        best = self.predict_proba(X).argmax(-1)
        chosen: Array = self.classes_[best]
        return chosen

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the rows that have a label: unlabelled ones cannot be right or wrong."""
        known = np.flatnonzero(~is_unlabelled(np.asarray(y)))
        weight = None if sample_weight is None else _safe_indexing(sample_weight, known)
        X, y = _safe_indexing(X, known), _safe_indexing(y, known)
        return float(super().score(X, y, sample_weight=weight))

    def _check(self, X: Any, y: Any, **rules: Any) -> tuple[Array, Array, Array, Array]:
        """X and y as arrays, the classes, and the number of each row's class, -1 if unlabelled."""
        _check_none_missing(y)
        X, y = validate_data(self, X, y, **rules)
        known = ~is_unlabelled(y)
        check_classification_targets(y[known])
        classes, codes = np.unique(y[known], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs labels of at least 2 classes, got {len(classes)} "
                f"class{'es' * (len(classes) != 1)}."
            )
        labels = np.full(len(y), UNKNOWN)
        labels[known] = codes
        return X, y, classes, labels


def _check_none_missing(y: Any) -> None:
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
