"""The formulas that several methods share, one sample at a time."""

from __future__ import annotations

import math

import numpy as np

from .records import Array, Ints

TINY = 1e-300


def log_softmax(z: Array) -> Array:
    """z − log Σ exp z of each row."""
    out = np.empty_like(z)
    for i, row in enumerate(z):
        top = row.max()
        out[i] = row - top - math.log(sum(math.exp(v - top) for v in row))
    return out


def softmax(z: Array) -> Array:
    """exp z / Σ exp z of each row."""
    return np.exp(log_softmax(z))


def normalise(p: Array) -> Array:
    """Each row divided by its sum."""
    return np.stack([row / row.sum() for row in p])


def sharpen(p: Array, temperature: float) -> Array:
    """p^(1/T) / Σ p^(1/T) of each row; by logarithms, because small T underflows."""
    return softmax(np.log(np.maximum(p, TINY)) / temperature)


def one_hot(labels: Ints, classes: int) -> Array:
    """(N, C): 1 at the label."""
    out = np.zeros((len(labels), classes))
    for i, label in enumerate(labels):
        out[i, label] = 1.0
    return out


def hard(p: Array) -> Ints:
    """ŷ = argmax of each row; the first of equals."""
    return np.array([int(np.argmax(row)) for row in p], dtype=np.int64)


def at_least(p: Array, threshold: float | Array) -> Array:
    """mask = 1[max p ≥ τ] with one τ, or one per sample."""
    taus = np.broadcast_to(threshold, (len(p),))
    return np.array([1.0 if row.max() >= tau else 0.0 for row, tau in zip(p, taus, strict=True)])


def ce(z: Array, labels: Ints) -> Array:
    """Cross-entropy of each row with an integer label."""
    rows = log_softmax(z)
    return np.array([-row[label] for row, label in zip(rows, labels, strict=True)])


def soft_ce(z: Array, target: Array) -> Array:
    """Cross-entropy −Σ q log p of each row with a probability target."""
    rows = log_softmax(z)
    return np.array([-(q * row).sum() for row, q in zip(rows, target, strict=True)])


def mse(z: Array, target: Array) -> Array:
    """Mean over classes of (softmax z − q)², of each row."""
    rows = softmax(z)
    return np.array([((p - q) ** 2).mean() for p, q in zip(rows, target, strict=True)])


def over_all(losses: Array, mask: Array) -> float:
    """Σ mask · loss / Bu: the rejected stay in the denominator."""
    return sum(float(m * v) for m, v in zip(mask, losses, strict=True)) / len(losses)


def xlogy(x: float, y: float) -> float:
    """x log y with 0 log y = 0."""
    return 0.0 if x == 0 else x * math.log(y)


def entropy(p: Array) -> float:
    """−Σ p log p in nats."""
    return -sum(xlogy(v, v) for v in p)


def divergence(p: Array, q: Array) -> float:
    """KL[p‖q] = Σ p log p − p log q in nats."""
    return sum(xlogy(a, a) - xlogy(a, b) for a, b in zip(p, q, strict=True))


def ramp(step: int, steps: int, share: float) -> float:
    """R(κ) = clip(it / (κ·T_tot), 0, 1)."""
    return min(max(step / (share * steps), 0.0), 1.0)


def mix(rows: Array, other: Array, lam: float) -> Array:
    """λ·rows + (1 − λ)·other with λ ← max(λ, 1 − λ), so that each row keeps its own part."""
    lam = max(lam, 1 - lam)
    return lam * rows + (1 - lam) * other


def turn(image: Array, quarters: int) -> Array:
    """A (3, H, W) image turned counter-clockwise by quarter turns."""
    return np.rot90(image, quarters, axes=(1, 2))


def unit(rows: Array) -> Array:
    """Each row divided by its Euclidean length."""
    return np.stack([row / np.linalg.norm(row) for row in rows])


def mean_row(p: Array) -> Array:
    """The mean over samples, (C,)."""
    return np.array([column.sum() / len(p) for column in p.T])


def moved(old: Array, new: Array, momentum: float) -> Array:
    """m·old + (1 − m)·new."""
    return momentum * old + (1 - momentum) * new


def histogram(labels: Ints, classes: int) -> Array:
    """How often each class occurs, divided by the number of labels."""
    return np.array([sum(label == c for label in labels) / len(labels) for c in range(classes)])
