"""The values of one reference step; the same names as the package's own records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Params = dict[str, Array]
Values = dict[str, npt.NDArray[Any]]
Draws = Mapping[str, npt.NDArray[Any]]
Calls = dict[str, list[tuple[Any, Any]]]  # (arguments, result) of each call of a function


@dataclass(frozen=True)
class Facts:
    """What a method may know of the data and of the run."""

    classes: int
    labelled: int
    unlabelled: int
    labelled_shares: tuple[float, ...]
    steps: int
    batch_labelled: int
    batch_unlabelled: int


@dataclass(frozen=True)
class NumpyBatch:
    """One step's input; `draws` are the random numbers that the method would draw itself."""

    x: tuple[Array, ...]
    y: Ints
    u: tuple[Array, ...]
    id_x: Ints
    id_u: Ints
    step: int
    progress: float
    draws: Draws = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """What one step gave.

    `parts` are the terms before their factors, `total` is their weighted sum. `values` is all that
    the loss takes as constant (predictions, labels, masks, weights, targets); `state` is a copy of
    what the method remembers after the step.
    """

    total: float
    parts: dict[str, float]
    values: Values
    state: Values
