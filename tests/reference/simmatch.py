"""SimMatch: the prediction and the similarities to all labelled images teach each other."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .alignment import QUEUE, QUEUE_STORED, align_by_queue, start_queue
from .comatch import embed
from .masked import SoftLabels
from .net import WIDTH, two_layer_shapes
from .primitives import at_least, log_softmax, normalise, softmax, unit
from .records import Array, Calls, Facts, NumpyBatch, Params, Values

EMBEDDING = 128


class Reference(SoftLabels):
    """L = CE_lb + mean(mask · H(p', p_s)) + L_in; in the first epoch p' = p and L_in counts 0.

    State: `bank` (128, labelled), whose random start must be given with columns of length 1;
    `bank_labels` (labelled,), zeros until visited; `queue`, `queue_pointer` of the alignment.
    Where an id repeats in a batch, every position blends with the old column and the last one
    stays. With `parity="usb"` the blended columns are normalised across the batch, feature by
    feature, instead of each on its own.
    """

    heads = two_layer_shapes("projector", WIDTH, EMBEDDING)
    stored: ClassVar = {"bank": "bank.T", "bank_labels": "labels", **QUEUE_STORED}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        bank: Array,
        threshold: float = 0.95,
        temperature: float = 0.1,
        smoothing: float = 0.9,
        bank_momentum: float = 0.7,
        instance_weight: float = 1.0,
        unlabelled_weight: float = 1.0,
        epoch: int = 1024,
        alignment_length: int = QUEUE,
        parity: str = "",
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold = threshold
        self.temperature = temperature
        self.smoothing = smoothing
        self.bank_momentum = bank_momentum
        self.instance_weight = instance_weight
        self.epoch = epoch
        self.parity = parity
        self.state["bank"] = bank.copy()
        self.state["bank_labels"] = np.zeros(facts.labelled, dtype=np.int64)
        start_queue(self.state, facts.classes, alignment_length)

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        return {"teacher": calls["each_ce"][-1][0][1]}

    def targets(self, batch: NumpyBatch) -> Values:
        weak = batch.u[0]
        bank, labels = self.state["bank"], self.state["bank_labels"]
        p = softmax(self.net(weak).logits)
        aligned = align_by_queue(self.state, p)
        near = softmax(embed(self.params, weak) @ bank / self.temperature)
        teacher = normalise(near * aligned[:, labels])
        gathered = np.zeros_like(aligned)
        for j, label in enumerate(labels):
            gathered[:, label] += near[:, j]
        target = aligned
        if batch.step // self.epoch > 0:
            target = self.smoothing * aligned + (1 - self.smoothing) * gathered
        self.write(batch)
        return {
            "p": p,
            "aligned": aligned,
            "target": target,
            "mask": at_least(target, self.threshold),
            "teacher": teacher,
            "bank": bank,
        }

    def write(self, batch: NumpyBatch) -> None:
        """M[:, id] ← norm(0.7·M[:, id] + 0.3·f_lb); the label bank takes y."""
        bank, labels = self.state["bank"].copy(), self.state["bank_labels"].copy()
        fresh = embed(self.params, batch.x[0])
        old = self.state["bank"].T[batch.id_x]
        blended = self.bank_momentum * old + (1 - self.bank_momentum) * fresh
        columns = unit(blended.T).T if self.parity == "usb" else unit(blended)
        for position, image in enumerate(batch.id_x):
            bank[:, image] = columns[position]
            labels[image] = batch.y[position]
        self.state.update(bank=bank, bank_labels=labels)

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        student = log_softmax(embed(params, batch.u[1]) @ values["bank"] / self.temperature)
        instance = -(values["teacher"] * student).sum(axis=1)
        return super().terms(params, batch, values) | {"instance": float(np.mean(instance))}

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        started = batch.step // self.epoch > 0
        return super().factors(batch) | {"instance": self.instance_weight * started}
