"""What CoMatch and SimMatch share: an embedding beside the classes, and soft aligned targets."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import kinds
from ..machine.precision import without_autocast
from ..pseudo import Pseudo
from ..stats import Status, Tally
from ..types import Batch, Loss, Out, Task
from .base import Method


class Contrastive(Method):
    """f = unit(project(features)); DA aligns with uniform by the mean of the last batches."""

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: float,
        projection: int,
        window: int,
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.tau = tau
        self.status, self.tally = Status(task, window=window), Tally(task)
        width = cast(int, net.width)
        self.project = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, projection)
        )

    def forward(self, batch: Batch) -> Loss:
        outs = self.predict(*batch.x, *batch.u)
        # The net may compute in bfloat16; similarities divided by a small t must not.
        with without_autocast(batch.y.device):
            return self.compare(batch, *outs)

    def compare(self, batch: Batch, *outs: Out) -> Loss:
        """The loss, from the net's outputs for each view of the batch."""
        raise NotImplementedError

    def embed(self, out: Out) -> Tensor:
        """f: (N, projection) rows of length one."""
        return F.normalize(self.project(out.features), dim=-1)

    @torch.no_grad()
    def align_(self, weak: Out) -> Tensor:
        """DA(p^w) = Normalize(p^w ⊙ p_target/p_model), p_model moved first."""
        p = weak.logits.softmax(-1)
        self.status.observe_(p, p)
        return self.status.align(p)

    def agreement(self, logits: Tensor, p: Tensor, ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """(1/Bu) Σ m·H(p, p^s) with m = 1[max p ≥ τ], and what the log says about p."""
        mask = (p.amax(-1) >= self.tau).float()
        self.tally.add_(ids, mask)
        pseudo = Pseudo(p, p.argmax(-1), mask, torch.ones_like(mask))
        report = {**pseudo.report(), "p_model": self.status.shares}
        return pseudo.loss(logits, p), report
