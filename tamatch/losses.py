"""Small formulas that the methods share. Rows are samples, the last axis is classes."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """(N, C) float; `F.one_hot` would wait for the device to check its range."""
    return (labels[..., None] == torch.arange(classes, device=labels.device)).float()


def each_ce(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy H(target, softmax(logits)) of each row; integer or probability targets."""
    if target.is_floating_point():
        return -(target * logits.log_softmax(-1)).sum(-1)
    return F.cross_entropy(logits, target, reduction="none")


def each_mse(probabilities: Tensor, target: Tensor) -> Tensor:
    """Squared distance of each row, divided by the number of classes."""
    return (probabilities - target).square().mean(-1)


def normalize(p: Tensor) -> Tensor:
    """Rows divided by their sums; an all-zero row stays zero."""
    return p / p.sum(-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)


def sharpen(p: Tensor, temperature: float) -> Tensor:
    """p^(1/T), normalised; computed from logarithms so that small T does not underflow."""
    return (p.clamp(min=torch.finfo(p.dtype).tiny).log() / temperature).softmax(-1)


def entropy(p: Tensor) -> Tensor:
    """Shannon entropy in nats of each row; 0 log 0 = 0."""
    return -torch.xlogy(p, p).sum(-1)


def kl(p: Tensor, q: Tensor) -> Tensor:
    """KL[p || q] in nats of each row, never negative by rounding; q must be positive."""
    return (torch.xlogy(p, p) - p * q.log()).sum(-1).clamp(min=0)


def ramp(progress: Tensor, length: float) -> Tensor:
    """Linear from 0 to 1 over the first `length` of the run, then 1."""
    return (progress / length).clamp(max=1)


def mean_of(losses: Sequence[Tensor]) -> Tensor:
    """The mean of some scalars, such as the losses of several views."""
    return torch.stack([*losses]).mean()
