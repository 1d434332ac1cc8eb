"""DASO: pseudo-labels blended with similarities to class prototypes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .masked import HardLabels
from .net import WIDTH, NumpyNet
from .primitives import at_least, hard, histogram, moved, over_all, soft_ce, softmax, unit
from .records import Array, Facts, NumpyBatch, Params, Values


class Reference(HardLabels):
    """CE_lb + λu · mean(mask · CE(z_s, ŷ)) + λq · mean H(q_w, q_s).

    State: `bank` (C, rows, width), `seen` (C,), `shares` of the pseudo-labels, and the teacher's
    parameters as `teacher.<name>`.
    """

    stored: ClassVar = {
        **{f"teacher.{name}": f"average.{name}" for name in "AMWb"},
        **{name: name for name in ("bank", "seen")},
        "shares": "shares.value",
    }

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        unlabelled_weight: float = 1.0,
        temperature: float = 0.05,
        flatten: float = 1.5,
        assign_weight: float = 1.0,
        rows: int = 256,
        start: float = 0.02,
        momentum: float = 0.99,
        teacher_momentum: float = 0.999,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold, self.temperature, self.flatten = threshold, temperature, flatten
        self.assign_weight, self.start, self.momentum = assign_weight, start, momentum
        self.teacher_momentum = teacher_momentum
        self.state = {f"teacher.{name}": value.copy() for name, value in self.params.items()}
        self.state["bank"] = np.zeros((facts.classes, rows, WIDTH))
        self.state["seen"] = np.zeros(facts.classes, dtype=np.int64)
        self.state["shares"] = np.full(facts.classes, 1 / facts.classes)

    def remembered(self) -> Values:
        rows = self.state["bank"].reshape(-1, WIDTH)  # those of all classes, one after the other
        return {**self.state, "bank": rows}

    def remember(self, batch: NumpyBatch) -> None:
        average = {name: self.state[f"teacher.{name}"] for name in self.params}
        bank, seen = self.state["bank"].copy(), self.state["seen"].copy()
        for row, label in zip(NumpyNet(average)(batch.x[0]).features, batch.y, strict=True):
            bank[label, seen[label] % bank.shape[1]] = row
            seen[label] += 1
        self.state.update(bank=bank, seen=seen)

    def logits(self, params: Params, images: Array) -> Array:
        """cos(f, μ_c)/T; 0 for a class without a prototype."""
        f, out = unit(NumpyNet(params)(images).features), np.zeros((len(images), len(params["b"])))
        for c, rows in enumerate(self.state["bank"]):
            count = min(int(self.state["seen"][c]), len(rows))
            if count:
                mean = rows[:count].mean(axis=0)
                out[:, c] = f @ (mean / np.linalg.norm(mean)) / self.temperature
        return out

    def targets(self, batch: NumpyBatch) -> Values:
        self.remember(batch)
        p = softmax(self.net(batch.u[0]).logits)
        q, label = softmax(self.logits(self.params, batch.u[0])), hard(p)
        if batch.progress >= self.start:
            shares = self.state["shares"]
            blend = ((shares / shares.max()) ** (1 / self.flatten))[label, None]
            p = (1 - blend) * p + blend * q
        label = hard(p)
        found = histogram(label, self.facts.classes)
        self.state["shares"] = moved(self.state["shares"], found, self.momentum)
        mask = at_least(p, self.threshold)
        return {"p": p, "label": label, "mask": mask, "soft": q}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        parts = super().terms(params, batch, values)
        logits = self.logits(params, batch.u[1])
        assign = over_all(soft_ce(logits, values["soft"]), np.ones(len(logits)))
        return {**parts, "assign": assign if batch.progress >= self.start else 0.0}

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return {**super().factors(batch), "assign": self.assign_weight}

    def after_step(self, params: Params) -> None:
        super().after_step(params)
        for name, value in self.params.items():
            old = self.state[f"teacher.{name}"]
            self.state[f"teacher.{name}"] = moved(old, value, self.teacher_momentum)
