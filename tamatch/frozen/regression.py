"""Multinomial logistic regression with a weight for each row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize  # type: ignore[import-untyped]
from torch import Tensor

from ..losses import one_hot
from ..machine.threads import single_blas

Floats = npt.NDArray[np.float64]

DECAY = 1e-2  # of L2: λ/2·‖W‖²
STEPS = 30  # of L-BFGS at most; a round starts from the solution of the last
CELLS = 2**24  # logits that are held at once


def fit(
    rows: Tensor, labels: Tensor, weights: Tensor, classes: int, start: Tensor | None = None,
    decay: float = DECAY,
) -> Tensor:  # fmt: skip
    """The minimum of Σ w·CE(y, softmax(W·x + b)) / Σ w + λ/2·‖W‖², as (C, D + 1) with b last."""
    head = rows.new_zeros(classes, rows.shape[1] + 1) if start is None else start
    shares = (weights / weights.sum())[:, None]
    size = max(1, CELLS // classes)

    def loss_and_gradient(flat: Floats) -> tuple[float, Floats]:
        now = torch.from_numpy(flat).view_as(head).to(rows)
        weight = now[:, :-1]
        loss = decay / 2 * weight.square().sum()
        gradient = torch.cat([decay * weight, torch.zeros_like(now[:, -1:])], dim=1)
        for i in range(0, len(rows), size):
            x, y, w = rows[i : i + size], labels[i : i + size], shares[i : i + size]
            logs = logits(x, now).log_softmax(1)
            loss -= (w * logs.gather(1, y[:, None])).sum()
            error = w * (logs.exp() - one_hot(y, classes).to(logs.dtype))
            gradient[:, :-1] += error.T @ x
            gradient[:, -1] += error.sum(0)
        return float(loss), vector(gradient)

    with single_blas():
        found = minimize(
            loss_and_gradient, vector(head), jac=True, method="L-BFGS-B",
            options={"maxiter": STEPS, "maxcor": STEPS, "gtol": 1e-5, "ftol": 1e-7},
        )  # fmt: skip
    return torch.from_numpy(found.x).view_as(head).to(rows)


def vector(matrix: Tensor) -> Floats:
    """As SciPy takes it."""
    return matrix.flatten().double().cpu().numpy()


def labels_alone(features: Tensor, labels: Tensor, classes: int) -> Tensor:
    """What everybody tries first, as scikit-learn does it: columns of deviation 1, and λ = 1/N."""
    mean, deviation = features.mean(0), features.std(0, correction=0)
    scale = torch.where(deviation > 0, 1 / deviation, 0)
    rows = (features - mean) * scale
    head = fit(rows, labels, torch.ones_like(rows[:, 0]), classes, decay=1 / len(labels))
    weight = head[:, :-1] * scale
    return torch.cat([weight, (head[:, -1] - weight @ mean)[:, None]], dim=1)


def logits(rows: Tensor, head: Tensor) -> Tensor:
    """W·x + b of each row."""
    return rows @ head[:, :-1].T + head[:, -1]
