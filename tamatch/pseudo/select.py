"""Selection: which pseudo-labels are used. Each part returns a mask of 0 and 1."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .. import dist
from ..stats import Ema, last_position, write_by_id_
from ..types import Task
from .guess import Guess


def everything(guess: Guess) -> Tensor:
    """All of them."""
    return torch.ones_like(guess.confidence)


class Threshold:
    """FixMatch: the confidence reaches a fixed τ."""

    def __init__(self, tau: float = 0.95) -> None:
        self.tau = tau

    def __call__(self, guess: Guess) -> Tensor:
        return (guess.confidence >= self.tau).float()


class Relative:
    """AdaMatch: the confidence reaches τ times the mean confidence on this labelled batch."""

    def __init__(self, tau: float = 0.95) -> None:
        self.tau = tau

    def __call__(self, guess: Guess) -> Tensor:
        level = self.tau * dist.mean_(guess.p_x.amax(-1).mean())
        return (guess.confidence >= level).float()


class Curriculum(nn.Module):
    """FlexMatch: the threshold of a class falls with β_c, how well the class is learnt.

    m = 1[max p ≥ τ·β_ŷ/(2−β_ŷ)],  β_c = σ_c / max(σ, σ_none), where σ_c counts the images whose
    last prediction at or above τ was c. With `warmup=False`, σ_none (images that were never
    that sure) is left out of the maximum. The counts follow each change instead of a recount.
    """

    labels: Tensor
    counts: Tensor

    def __init__(self, task: Task, tau: float = 0.95, *, warmup: bool = True) -> None:
        super().__init__()
        self.tau, self.none = tau, task.classes
        self.rivals = task.classes + warmup  # how many counts enter the maximum
        self.register_buffer("labels", torch.full((task.unlabelled,), self.none))
        self.register_buffer("counts", torch.tensor([0] * task.classes + [task.unlabelled]))

    @property
    def beta(self) -> Tensor:
        """β, float64 (C,)."""
        counts = self.counts.double()
        return counts[: self.none] / counts[: self.rivals].amax().clamp(min=1)

    def forward(self, guess: Guess) -> Tensor:
        level = self.tau * self.beta / (2 - self.beta)  # β as the previous step left it
        mask = (guess.confidence >= level[guess.label]).float()
        if guess.learn:
            self.remember_(guess.ids, guess.label, guess.confidence >= self.tau)
        return mask

    def remember_(self, ids: Tensor, label: Tensor, sure: Tensor) -> None:
        ids, label, sure = dist.gather(ids), dist.gather(label), dist.gather(sure)
        position = torch.arange(len(ids), device=ids.device)
        once = (last_position(ids, len(self.labels)) == position).long()  # a repeat counts once
        self.counts.index_add_(0, self.labels[ids], -once)
        write_by_id_(self.labels, ids, label, keep=sure)
        self.counts.index_add_(0, self.labels[ids], once)


class SelfAdaptive(nn.Module):
    """FreeMatch: a global threshold τ̃ that follows the confidence, scaled by class.

    m = 1[max p ≥ τ̃·p̃_ŷ / max p̃],  τ̃ ← λτ̃ + (1−λ)·E[max p],  p̃ ← λp̃ + (1−λ)·E[p]; both
    start at 1/C unless told otherwise.
    """

    def __init__(
        self,
        task: Task,
        momentum: float = 0.999,
        *,
        threshold: float | None = None,
        share: float | None = None,
    ) -> None:
        super().__init__()
        even = 1 / task.classes
        self.threshold = Ema(even if threshold is None else threshold, momentum)
        shares = torch.full((task.classes,), even if share is None else share, dtype=torch.float64)
        self.shares = Ema(shares, momentum)

    def forward(self, guess: Guess) -> Tensor:
        if guess.learn:
            self.threshold.update_(dist.mean_(guess.confidence.double().mean()))
            self.shares.update_(dist.mean_(guess.p.double().mean(0)))
        level = self.threshold.value * self.shares.value / self.shares.value.amax()
        return (guess.confidence >= level[guess.label]).float()
