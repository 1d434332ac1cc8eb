"""Dash: keeps the unlabelled images whose own loss lies under a threshold that falls."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .masked import SoftLabels
from .primitives import ce, hard, one_hot, soft_ce, softmax
from .records import Facts, NumpyBatch, Params, Values

GROWTH = 1.0001


class Reference(SoftLabels):
    """mask = 1[CE(z_w, target) ≤ ρ], ρ = max(1.0001 · 1.27^(−k) · ρ_init, 0.05).

    The first `warm_up` steps of the run are supervised; ρ_init is the mean labelled loss of their
    last 100. From then on ρ is set at once and again every `period` steps, k = 0, 1, … counting
    the settings; `state["k"]` is the number of settings made. The target is softmax(z_w / 0.5)
    while ρ > 0.05, and the hard label after that. With `parity="usb"` the warm-up lies before the
    run and `rho_init`, the evaluation loss of the initial weights, must be given.
    """

    stored: ClassVar = {"rho_init": "rho_init"}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        warm_up: int = 2048,
        window: int = 100,
        period: int = 10_240,
        gamma: float = 1.27,
        floor: float = 0.05,
        temperature: float = 0.5,
        unlabelled_weight: float = 1.0,
        parity: str = "",
        rho_init: float | None = None,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.warm_up = 0 if parity == "usb" else warm_up
        if self.warm_up == 0 and rho_init is None:
            raise ValueError("without a warm-up inside the run, rho_init must be given")
        self.window = window
        self.period = period
        self.gamma = gamma
        self.floor = floor
        self.temperature = temperature
        self.state = {
            "losses": np.zeros(0),
            "rho_init": np.array(0.0 if rho_init is None else rho_init),
            "rho": np.array(0.0),
            "k": np.array(0),
        }

    def remembered(self) -> Values:
        """ρ and k follow from the step, and the losses are summed."""
        return {"rho_init": self.state["rho_init"]}

    def targets(self, batch: NumpyBatch) -> Values:
        logits = self.net(batch.u[0]).logits
        if batch.step < self.warm_up:
            self.watch(self.labelled_ce(self.params, batch))
            return {
                "p": softmax(logits),
                "target": softmax(logits / self.temperature),
                "mask": np.zeros(len(logits)),
            }
        if (batch.step - self.warm_up) % self.period == 0:
            self.lower()
        rho = float(self.state["rho"])
        if rho == self.floor:
            label = hard(logits)
            target, losses = one_hot(label, self.facts.classes), ce(logits, label)
        else:
            target = softmax(logits / self.temperature)
            losses = soft_ce(logits, target)
        mask = np.array([1.0 if loss <= rho else 0.0 for loss in losses])
        return {"p": softmax(logits), "target": target, "losses": losses, "mask": mask}

    def watch(self, loss: float) -> None:
        """Remember the labelled loss of a warm-up step; ρ_init is the mean of the last ones."""
        self.state["losses"] = np.append(self.state["losses"], loss)[-self.window :]
        self.state["rho_init"] = np.array(self.state["losses"].mean())

    def lower(self) -> None:
        """Set ρ with the present k, then count."""
        k = int(self.state["k"])
        rho = GROWTH * self.gamma**-k * float(self.state["rho_init"])
        self.state["rho"] = np.array(max(rho, self.floor))
        self.state["k"] = np.array(k + 1)
