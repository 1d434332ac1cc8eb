"""Debiased generation: from raw to adjusted predictions."""

from __future__ import annotations

from torch import Tensor

from .guess import Guess


def raw(guess: Guess) -> Tensor:
    """p^w as the model gives it."""
    return guess.p_w


def rescale(guess: Guess) -> Tensor:
    """RE(p^w) = Normalize(p^w ⊙ r)."""
    return guess.status.align(guess.p_w)
