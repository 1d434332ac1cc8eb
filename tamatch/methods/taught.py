"""A net that learns what a teacher says of the pool: the step of TaMatch solved on its features."""

import torch
from torch import Tensor, nn

from .. import kinds
from ..errors import UsageError
from ..losses import each_ce
from ..types import Batch, Loss, Task, Views
from .base import Method


class Taught(Method):
    """The strong view must show the class that the teacher names.

    L = (1/B) Σ H(y, p(x)) + λ_u · (1/Bu) Σ w·H(ŷ, p^s)

    ŷ and w of each image of the pool are given by `teach`, now and then; before that, w = 0.
    Labels that a net makes for itself in each step, as in FixMatch, confirm its errors: begun with
    better ones, it was back at its own after some hundred steps. `parity="usb"` changes nothing.
    """

    views = Views(u=("strong",))
    compiles = True
    labels: Tensor
    amounts: Tensor

    def __init__(
        self, net: nn.Module, task: Task, *, lambda_u: kinds.LambdaU = 1.0, **base: kinds.Inherited
    ) -> None:
        super().__init__(net, task, **base)
        self.lambda_u = lambda_u
        self.register_buffer("labels", torch.zeros(task.unlabelled, dtype=torch.int64))
        self.register_buffer("amounts", torch.zeros(task.unlabelled))

    @torch.no_grad()
    def teach(self, labels: Tensor, amounts: Tensor) -> None:
        """Take the class ŷ of each image of the pool, and how much it counts, w ≥ 0."""
        count, classes = len(self.labels), self.task.classes
        if not (
            labels.shape == amounts.shape == (count,) and not labels.is_floating_point()
            and bool(((labels >= 0) & (labels < classes)).all()) and bool((amounts >= 0).all())
        ):  # fmt: skip
            raise UsageError(
                f"teach takes a label from 0 to {classes - 1} and an amount of at least 0 for each "
                f"of the {count:,} unlabelled images; got {tuple(labels.shape)} labels of "
                f"{labels.dtype} and {tuple(amounts.shape)} amounts of {amounts.dtype}."
            )
        self.labels.copy_(labels)
        self.amounts.copy_(amounts)

    def forward(self, batch: Batch) -> Loss:
        x, strong = self.predict(*batch.x, *batch.u)
        w = self.amounts[batch.id_u]
        sup = each_ce(x.logits, batch.y).mean()
        unsup = (w * each_ce(strong.logits, self.labels[batch.id_u])).mean()
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), "used": w.mean()}
        return Loss(sup + self.lambda_u * unsup, parts)
