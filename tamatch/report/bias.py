"""Confirmation bias as the paper defines it: class shares p_model against the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..judge.differences import kl
from .metrics import Log, Points


def kl_curve(log: Log, fixed: Sequence[float] | None = None) -> Points:
    """KL[p_model || p_target] over steps, or against `fixed` shares."""
    return [
        (
            row.step,
            kl(row.vectors["p_model"], row.vectors.get("p_target", ()) if fixed is None else fixed),
        )
        for row in log.rows
        if "p_model" in row.vectors
    ]


def share_curve(log: Log, name: str, index: int) -> Points:
    """One class's entry of a per-class vector over steps, in percent."""
    return [
        (row.step, 100 * row.vectors[name][index])
        for row in log.rows
        if index < len(row.vectors.get(name, ()))
    ]


@dataclass(frozen=True)
class Bias:
    """How far the model's share of a class, p_model(c), lies from its reference share."""

    index: int
    name: str
    model: float
    target: float | None
    truth: float | None
    reference: float  # the truth where it is known, else the target

    @property
    def gap(self) -> float:
        """p_model(c) minus the reference."""
        return self.model - self.reference

    @property
    def kind(self) -> str:
        """Strong: p_model(c) above the reference. Weak: below."""
        return "strong" if self.gap > 0 else "weak" if self.gap < 0 else "even"


def biases(
    names: Sequence[str],
    model: Sequence[float],
    target: Sequence[float],
    truth: Sequence[float],
) -> list[Bias]:
    """Strong and weak classes; empty if neither truth nor target fits p_model."""
    reference = truth if len(truth) == len(model) else target
    if not model or len(reference) != len(model) or len(names) < len(model):
        return []
    return [
        Bias(
            index=index,
            name=names[index],
            model=share,
            target=target[index] if index < len(target) else None,
            truth=truth[index] if index < len(truth) else None,
            reference=reference[index],
        )
        for index, share in enumerate(model)
    ]
