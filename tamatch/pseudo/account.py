"""What a method did with its pseudo-labels, told afterwards; nothing here belongs to a step."""

from typing import TypeVar

import torch
from torch import Tensor, nn

from ..stats import Status, Tally, ratio
from .guess import Guess, PseudoLabeler
from .parts import ByClass, Threshold, rescale

Kind = TypeVar("Kind", bound=nn.Module)


def find_module(method: nn.Module, kind: type[Kind]) -> Kind | None:
    """The first module of a kind in a method."""
    return next((m for m in method.modules() if isinstance(m, kind)), None)


def accepted(method: nn.Module) -> Tensor | None:
    """How often each image of the pool was accepted; None where the method has no such rule."""
    tally = find_module(method, Tally)
    return None if tally is None else tally.count


def generated(method: nn.Module, p: Tensor) -> Tensor:
    """What the method's labels would be made of: p after generation, or p where it has none."""
    labeler, status = find_module(method, PseudoLabeler), find_module(method, Status)
    if labeler is not None:
        return labeler.generate(_guess(p, labeler.status))
    return p if status is None else rescale(_guess(p, status))


def threshold(method: nn.Module) -> float | None:
    """The fixed τ, where there is one: some selections have a τ that they multiply."""
    labeler = find_module(method, PseudoLabeler)
    if labeler is not None:
        return labeler.select.tau if isinstance(labeler.select, Threshold) else None
    tau = getattr(method, "tau", None)
    return tau if isinstance(tau, float) else None


def class_shares(method: nn.Module) -> dict[str, list[float] | None]:
    """The class shares that a method estimates and aims at, and what it does about the gap.

    `factors` is r = p_target/p_model where predictions are rescaled by it, `weights` what a
    pseudo-label of each class counts where that depends on the class; None: not done.
    """
    status, labeler = find_module(method, Status), find_module(method, PseudoLabeler)
    if status is None:
        return dict.fromkeys(("p_model", "p_target", "factors", "weights"))
    rescales = labeler is None or labeler.generate is rescale
    part = None if labeler is None else find_module(labeler, ByClass)
    factors = ratio(status.target.value, status.shares, status.eps).float()
    each = torch.eye(len(status.target.value), device=status.target.value.device)
    return {
        "p_model": status.shares.tolist(),
        "p_target": status.target.value.tolist(),
        "factors": factors.tolist() if rescales else None,
        "weights": None if part is None else part(_guess(each, status)).tolist(),
    }


def _guess(p: Tensor, status: Status) -> Guess:
    return Guess(p, p, p, torch.arange(len(p), device=p.device), status, learn=False)
