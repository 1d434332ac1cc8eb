"""The parts that make pseudo-labels: generation (what they are made of), selection (which are used,
a mask of 0 and 1), and utilization (how much each counts).
"""

from typing import Literal

import torch
from torch import Tensor, nn

from .. import dist
from ..losses import one_hot
from ..stats import Ema, effective_weights, last_position, write_by_id_
from ..types import Task
from .guess import Guess, Part


def raw(guess: Guess) -> Tensor:
    """p^w as the model gives it."""
    return guess.p_w


def rescale(guess: Guess) -> Tensor:
    """RE(p^w) = Normalize(p^w ⊙ r)."""
    return guess.status.align(guess.p_w)


def pool(guess: Guess) -> Tensor:
    """Normalize(p^w / r): of a net whose logits are trained for p_target, what the pool holds."""
    return guess.status.restore(guess.p_w)


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


def evenly(guess: Guess) -> Tensor:
    """Every pseudo-label counts the same."""
    return torch.ones_like(guess.confidence)


class ByClass(nn.Module):
    """TaMatch: w = r(ŷ), bounded by the adaptive interval [1, r_max].

    `clip="literal"` is the paper's bound, which only ever raises weights; "symmetric" uses
    [1/r_max, r_max], as the paper's motivation suggests; "none" is the ablation without bound.
    """

    def __init__(self, clip: Literal["literal", "symmetric", "none"] = "literal") -> None:
        super().__init__()
        self.clip = clip

    def forward(self, guess: Guess) -> Tensor:
        r = guess.status.ratio
        if self.clip != "none":
            r_max = guess.status.bound
            r_min = 1 / r_max if self.clip == "symmetric" else torch.ones_like(r_max)
            r = r.minimum(r_max).maximum(r_min)
        return r[guess.label]


class Effective(nn.Module):
    """SAW: w ∝ 1/(1−β^n_ŷ), with mean 1 over the classes and β = 1−1/n̄.

    n_c = max(1, N·h_c) for N images in the pool, h the running share of each label; starts at 1/C.
    """

    def __init__(self, task: Task, momentum: float = 0.999) -> None:
        super().__init__()
        self.images = task.unlabelled
        even = torch.full((task.classes,), 1 / task.classes, dtype=torch.float64)
        self.shares = Ema(even, momentum)

    def forward(self, guess: Guess) -> Tensor:
        if guess.learn:
            labels = one_hot(guess.label, guess.p.shape[-1]).double()
            self.shares.update_(dist.mean_(labels.mean(0)))
        counts = (self.images * self.shares.value).clamp(min=1)
        return effective_weights(counts).float()[guess.label]


class Gaussian(nn.Module):
    """SoftMatch: full weight from the mean confidence μ̂ upwards, a falling one below it.

    w = exp(−min(c − μ̂, 0)² / (2σ̂²/n²)),  c = max RE(p^w),  and μ̂, σ̂² follow the batch's mean
    and variance of c: whatever the labels are made of, the weights judge the aligned prediction.
    `learn_from="raw"` lets μ̂ and σ̂² follow max p^w. `twice` takes the softmax of RE(p^w) once
    more, as the published benchmark code did.
    """

    def __init__(
        self,
        task: Task,
        momentum: float = 0.999,
        *,
        n_sigma: float = 2.0,
        learn_from: Literal["aligned", "raw"] = "aligned",
        twice: bool = False,
    ) -> None:
        super().__init__()
        self.n_sigma, self.learn_from, self.twice = n_sigma, learn_from, twice
        self.mean = Ema(1 / task.classes, momentum)
        self.variance = Ema(1.0, momentum)

    def forward(self, guess: Guess) -> Tensor:
        aligned = rescale(guess).softmax(-1) if self.twice else rescale(guess)
        confidence = aligned.amax(-1).double()
        if guess.learn:
            raw = guess.p_w.amax(-1).double()
            self.learn_(dist.gather(raw if self.learn_from == "raw" else confidence))
        below = (confidence - self.mean.value).clamp(max=0)
        variance = self.variance.value.clamp(min=1e-12) / self.n_sigma**2
        return (-below.square() / (2 * variance)).exp().float()

    def learn_(self, confidence: Tensor) -> None:
        self.mean.update_(confidence.mean())
        unbiased = min(1, len(confidence) - 1)  # one sample alone has the variance zero
        self.variance.update_(confidence.var(correction=unbiased))


class Product(nn.Module):
    """Two weights multiplied, such as TaMatch's by class and SoftMatch's by confidence."""

    def __init__(self, first: Part, second: Part) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, guess: Guess) -> Tensor:
        return self.first(guess) * self.second(guess)
