"""Debiased utilization: how much each pseudo-label counts."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from .. import dist
from ..stats import Ema
from ..types import Task
from .generate import rescale
from .guess import Guess, Part


def evenly(guess: Guess) -> Tensor:
    """Every pseudo-label counts the same."""
    return torch.ones_like(guess.confidence)


class ByClass:
    """TaMatch: w = r(ŷ), bounded by the adaptive interval [1, r_max].

    `clip="literal"` is the paper's bound, which only ever raises weights; "symmetric" uses
    [1/r_max, r_max], as the paper's motivation suggests; "none" is the ablation without bound.
    """

    def __init__(self, clip: Literal["literal", "symmetric", "none"] = "literal") -> None:
        self.clip = clip

    def __call__(self, guess: Guess) -> Tensor:
        r = guess.status.ratio
        if self.clip != "none":
            r_max = guess.status.bound
            r_min = 1 / r_max if self.clip == "symmetric" else torch.ones_like(r_max)
            r = r.minimum(r_max).maximum(r_min)
        return r[guess.label]


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
