"""A classifier of feature vectors in the manner of scikit-learn, solved in seconds on a CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import (  # type: ignore[import-untyped]
    check_is_fitted,
    validate_data,
)

from ..data import UNKNOWN
from ..frozen.solver import solve
from .base import Array, Classifier


class FeatureClassifier(Classifier):
    """Semi-supervised classification of feature vectors by TaMatch, solved on all rows at once.

    X of shape (N, F) are features, such as those of a pre-trained net; they need no scaling. In y,
    -1 means unlabelled, and so does the text "-1". There are no random numbers in it.

    Parameters
    ----------
    prior : class shares of the unlabelled rows, by class or in the order of `classes_`, as shares
        or counts; None to estimate them
    device : where to compute, "cpu" or "cuda"

    Attributes
    ----------
    classes_ : the classes, sorted
    coef_, intercept_ : the linear classifier, of one row if there are two classes
    transduction_ : the class of each row of X: its label, or what it is found to be
    shares_ : class shares of the unlabelled rows, estimated or given; of the labels without any
    n_features_in_, feature_names_in_ : as in scikit-learn
    """

    coef_: npt.NDArray[np.float64]
    intercept_: npt.NDArray[np.float64]
    transduction_: Array
    shares_: npt.NDArray[np.float64]

    def __init__(
        self, *, prior: Mapping[Any, float] | Sequence[float] | None = None, device: str = "cpu"
    ) -> None:
        self.prior = prior
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from all rows of X and from those labels in y that are not -1."""
        X, y, self.classes_, labels = self._check(X, y, dtype=[np.float64, np.float32])
        known = labels != UNKNOWN
        prior = self._prior()
        found = solve(
            torch.tensor(X[known], device=self.device),
            torch.tensor(labels[known], device=self.device),
            torch.tensor(X[~known], device=self.device),
            len(self.classes_),
            prior=None if prior is None else torch.tensor(prior, device=self.device),
        )
        head = found.head.cpu().numpy()
        if len(self.classes_) == 2:
            head = head[1:] - head[:1]
        self.coef_, self.intercept_ = head[:, :-1], head[:, -1]
        self.shares_ = found.shares.cpu().numpy()
        self.transduction_ = y.copy()
        self.transduction_[~known] = self.classes_[found.q.argmax(1).cpu().numpy()]
        return self

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """The logit of each of `classes_`, (N, C); of two classes only that of the second, (N,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        logits: npt.NDArray[np.float64] = X @ self.coef_.T + self.intercept_
        return logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """The probability of each of `classes_`, (N, C), where all classes are equally frequent."""
        z = self.decision_function(X)
        if len(self.classes_) == 2:
            z = np.stack([np.zeros_like(z), z], axis=1)
        p = np.exp(z - z.max(1, keepdims=True))
        shares: npt.NDArray[np.float64] = p / p.sum(1, keepdims=True)
        return shares

    def _prior(self) -> npt.NDArray[np.float64] | None:
        """The given class shares in the order of `classes_`, as shares of one."""
        if self.prior is None:
            return None
        if isinstance(self.prior, Mapping):
            if set(self.prior) != set(self.classes_.tolist()):
                raise ValueError(
                    f"prior has the classes {sorted(map(str, self.prior))}, but y has "
                    f"{[str(c) for c in self.classes_]}."
                )
            given = [self.prior[c] for c in self.classes_.tolist()]
        else:
            given = list(self.prior)
        shares = np.asarray(given, np.float64)
        if shares.shape != self.classes_.shape or not np.isfinite(shares).all():
            raise ValueError(
                f"prior must have one share for each of the {len(self.classes_)} classes."
            )
        if shares.min() < 0 or shares.sum() <= 0:
            raise ValueError("prior: class shares must be non-negative and not all zero.")
        normalised: npt.NDArray[np.float64] = shares / shares.sum()
        return normalised
