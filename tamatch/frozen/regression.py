"""Multinomial logistic regression with a weight for each row."""

from __future__ import annotations

import torch
from torch import Tensor

from ..losses import one_hot

DECAY = 1e-2  # of L2: λ/2·‖W‖²
STEPS = 30  # of L-BFGS at most; a round starts from the solution of the last
CELLS = 2**24  # logits that are held at once


def fit(
    rows: Tensor, labels: Tensor, weights: Tensor, classes: int, start: Tensor | None = None
) -> Tensor:
    """The minimum of Σ w·CE(y, softmax(W·x + b)) / Σ w + λ/2·‖W‖², as (C, D + 1) with b last."""
    head = rows.new_zeros(classes, rows.shape[1] + 1) if start is None else start.clone()
    head.requires_grad_()
    shares = (weights / weights.sum())[:, None]
    size = max(1, CELLS // classes)

    @torch.no_grad()
    def loss_and_gradient() -> Tensor:
        weight, loss = head[:, :-1], DECAY / 2 * head[:, :-1].square().sum()
        head.grad = torch.cat([DECAY * weight, torch.zeros_like(head[:, -1:])], dim=1)
        for i in range(0, len(rows), size):
            x, y, w = rows[i : i + size], labels[i : i + size], shares[i : i + size]
            logs = logits(x, head).log_softmax(1)
            loss -= (w * logs.gather(1, y[:, None])).sum()
            error = w * (logs.exp() - one_hot(y, classes).to(logs.dtype))
            head.grad[:, :-1] += error.T @ x
            head.grad[:, -1] += error.sum(0)
        return loss

    torch.optim.LBFGS(  # type: ignore[no-untyped-call]
        [head], max_iter=STEPS, tolerance_grad=1e-5, tolerance_change=1e-7,
        line_search_fn="strong_wolfe",
    ).step(loss_and_gradient)  # fmt: skip
    return head.detach()


def logits(rows: Tensor, head: Tensor) -> Tensor:
    """W·x + b of each row."""
    return rows @ head[:, :-1].T + head[:, -1]
