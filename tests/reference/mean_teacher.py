"""Mean Teacher: the Π-Model whose target comes from a running average of the weights."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from . import pi_model
from .net import NumpyNet
from .primitives import moved, softmax
from .records import Array, Facts, NumpyBatch, Params, Values


class Reference(pi_model.Reference):
    """L = CE_lb + 50 · R(0.4) · MSE(softmax(z_w2^student), softmax(z_w^teacher)).

    The teacher starts as a copy of the student and moves in `after_step`; its parameters are in
    `state` as `teacher.<name>`. With `parity="usb"` the student's logits are the teacher's, as in
    the published code: the term is a constant, zero.
    """

    stored: ClassVar = {f"teacher.{name}": f"average.{name}" for name in "AMWb"}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        unlabelled_weight: float = 50.0,
        ramp_share: float = 0.4,
        momentum: float = 0.999,
        parity: str = "",
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight, ramp_share=ramp_share)
        self.momentum = momentum
        self.parity = parity
        self.state = {f"teacher.{name}": value.copy() for name, value in self.params.items()}

    def teacher(self, images: Array) -> Array:
        average = {name: self.state[f"teacher.{name}"] for name in self.params}
        return softmax(NumpyNet(average)(images).logits)

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        parts = super().terms(params, batch, values)
        if self.parity == "usb":
            pairs = zip(values["target"], values["target"], strict=True)
            parts["unlabelled"] = float(np.mean([((p - q) ** 2).mean() for p, q in pairs]))
        return parts

    def after_step(self, params: Params) -> None:
        super().after_step(params)
        for name, value in self.params.items():
            old = self.state[f"teacher.{name}"]
            self.state[f"teacher.{name}"] = moved(old, value, self.momentum)
