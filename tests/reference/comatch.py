"""CoMatch: predictions smoothed by a memory of embeddings, and a contrast between strong views."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from .alignment import QUEUE, QUEUE_STORED, align_by_queue, start_queue
from .masked import SoftLabels
from .net import WIDTH, NumpyNet, two_layer_shapes, two_layers
from .primitives import at_least, normalise, one_hot, softmax, unit
from .records import Array, Calls, Facts, NumpyBatch, Params, Values

EMBEDDING = 64


def embed(params: Params, images: Array) -> Array:
    """f: the projector's output, of length 1."""
    return unit(two_layers(params, "projector", NumpyNet(params)(images).features))


class Reference(SoftLabels):
    """L = CE_lb + mean(mask · H(p, p_s0)) + λc · mean_i −Σ_j Q_ij log(S_ij + 1e-7).

    State: `bank_features` (K, 64) and `bank_p` (K, C), zeros, K = queue_batches · (Bu + B), written
    in a ring at `bank_pointer`; `queue`, `queue_pointer` of the alignment. Smoothing begins when
    both the first epoch and `queue_batches` steps have passed.
    """

    u_views = ("weak", "strong", "strong")
    heads = two_layer_shapes("projector", WIDTH, EMBEDDING)
    stored: ClassVar = {
        "bank_features": "memory.f",
        "bank_p": "memory.p",
        "bank_pointer": "memory.at",
        **QUEUE_STORED,
    }

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        graph_threshold: float = 0.8,
        temperature: float = 0.2,
        smoothing: float = 0.9,
        queue_batches: int = 32,
        contrast_weight: float = 1.0,
        unlabelled_weight: float = 1.0,
        epoch: int = 1024,
        alignment_length: int = QUEUE,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold = threshold
        self.graph_threshold = graph_threshold
        self.temperature = temperature
        self.smoothing = smoothing
        self.queue_batches = queue_batches
        self.contrast_weight = contrast_weight
        self.epoch = epoch
        rows = queue_batches * (facts.batch_unlabelled + facts.batch_labelled)
        self.state["bank_features"] = np.zeros((rows, EMBEDDING))
        self.state["bank_p"] = np.zeros((rows, facts.classes))
        self.state["bank_pointer"] = np.array(0)
        start_queue(self.state, facts.classes, alignment_length)

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        return {"graph": calls["graph"][-1][1]}

    def targets(self, batch: NumpyBatch) -> Values:
        weak = batch.u[0]
        p = softmax(self.net(weak).logits)
        aligned = align_by_queue(self.state, p)
        f_weak, f_labelled = embed(self.params, weak), embed(self.params, batch.x[0])
        smooth = aligned
        if batch.step // self.epoch > 0 and batch.step > self.queue_batches:
            near = softmax(f_weak @ self.state["bank_features"].T / self.temperature)
            smooth = self.smoothing * aligned + (1 - self.smoothing) * near @ self.state["bank_p"]
        self.write(
            np.concatenate([f_weak, f_labelled]),
            np.concatenate([aligned, one_hot(batch.y, self.facts.classes)]),
        )
        return {
            "p": p,
            "aligned": aligned,
            "target": smooth,
            "mask": at_least(smooth, self.threshold),
            "graph": self.graph(smooth),
        }

    def write(self, features: Array, p: Array) -> None:
        """Put rows into the ring, one after the other."""
        bank_features, bank_p = self.state["bank_features"].copy(), self.state["bank_p"].copy()
        pointer = int(self.state["bank_pointer"])
        for row, probabilities in zip(features, p, strict=True):
            bank_features[pointer], bank_p[pointer] = row, probabilities
            pointer = (pointer + 1) % len(bank_p)
        self.state.update(
            bank_features=bank_features, bank_p=bank_p, bank_pointer=np.array(pointer)
        )

    def graph(self, p: Array) -> Array:
        """Q = p pᵀ with 1 on the diagonal, entries under the threshold 0, rows normalised."""
        q = np.empty((len(p), len(p)))
        for i, left in enumerate(p):
            for j, right in enumerate(p):
                similarity = 1.0 if i == j else float((left * right).sum())
                q[i, j] = similarity if similarity >= self.graph_threshold else 0.0
        return normalise(q)

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        _, s0, s1 = batch.u
        similarity = softmax(embed(params, s0) @ embed(params, s1).T / self.temperature)
        contrast = -(values["graph"] * np.log(similarity + 1e-7)).sum(axis=1)
        return super().terms(params, batch, values) | {"contrast": float(np.mean(contrast))}

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return super().factors(batch) | {"contrast": self.contrast_weight}
