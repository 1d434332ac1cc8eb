"""What all references have in common: constants first, then a loss of the parameters alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .net import NumpyNet, NumpyOut
from .primitives import ce
from .records import Array, Calls, Draws, Facts, NumpyBatch, Params, Result, Values


class SlowMethod(ABC):
    """A method in two halves, so that what carries a gradient is visible.

    `targets` makes every constant of the loss and moves the state; `terms` is the loss as a
    function of the parameters, given those constants. Names used in `values`: `p` softmax of the
    weak view, `aligned` p after rescaling, `label`, `mask`, `weight` (per sample), `target` (soft).
    `state` may be overwritten between steps.
    """

    x_views: ClassVar[tuple[str, ...]] = ("weak",)
    u_views: ClassVar[tuple[str, ...]] = ("weak", "strong")
    heads: ClassVar[dict[str, tuple[int, ...]]] = {}
    settings: ClassVar[dict[str, dict[str, Any]]] = {}
    """Further cases: options by title, under names that the method has, too."""
    starts: ClassVar[dict[str, Callable[..., None]]] = {}
    """What gives the reference the state with which such a case, or `default`, begins."""
    stored: ClassVar[dict[str, str]] = {}
    """Where the method keeps what `state` has: names of the one, attributes of the other."""

    def __init__(self, params: Params, facts: Facts) -> None:
        self.params = {name: value.astype(np.float64) for name, value in params.items()}
        self.facts = facts
        self.state: Values = {}

    @classmethod
    def drawn(cls, rng: np.random.Generator, facts: Facts) -> Values:
        """The random numbers of a step, the `draws` of a batch."""
        return {}

    @staticmethod
    def handed(draws: Draws, tensor: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        """Functions that give a method these numbers, by the module.name that each stands for."""
        return {}

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        """Constants of the loss that are in no pseudo-label, from the calls of a `Witness`."""
        return {}

    def remembered(self) -> Values:
        """`state` in the form in which the method keeps it."""
        return dict(self.state)

    def step(self, batch: NumpyBatch) -> Result:
        """One step with the current parameters; it does not change them."""
        if abs(batch.progress - batch.step / self.facts.steps) > 1e-6:
            raise ValueError("progress must be step / steps")
        values = self.targets(batch)
        parts = self.terms(self.params, batch, values)
        state = {name: value.copy() for name, value in self.state.items()}
        return Result(self.weighted(parts, batch), parts, values, state)

    def loss(self, params: Params, batch: NumpyBatch, values: Values) -> float:
        """The total at other parameters with the constants held, as a gradient sees it."""
        return self.weighted(self.terms(params, batch, values), batch)

    def weighted(self, parts: dict[str, float], batch: NumpyBatch) -> float:
        """Sum of the terms times their factors."""
        factors = self.factors(batch)
        return sum(factors[name] * value for name, value in parts.items())

    def after_step(self, params: Params) -> None:
        """Take the parameters that the optimiser has just made."""
        self.params = {name: value.astype(np.float64) for name, value in params.items()}

    def net(self, images: Array) -> NumpyOut:
        """The net at the current parameters."""
        return NumpyNet(self.params)(images)

    def labelled_ce(self, params: Params, batch: NumpyBatch) -> float:
        """Mean cross-entropy of the (first) labelled view."""
        return float(np.mean(ce(NumpyNet(params)(batch.x[0]).logits, batch.y)))

    @abstractmethod
    def targets(self, batch: NumpyBatch) -> Values:
        """The constants of the loss; moves `state`."""

    @abstractmethod
    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        """The loss terms, without their factors."""

    @abstractmethod
    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        """What each term is multiplied by in this step."""
