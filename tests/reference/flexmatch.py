"""FlexMatch: a threshold per class that falls with how seldom the class was learned."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .masked import HardLabels
from .primitives import at_least, hard, softmax
from .records import Facts, NumpyBatch, Params, Values


class Reference(HardLabels):
    """mask = 1[max p_w ≥ 0.95 · β_c / (2 − β_c)] with β of the step before, c = argmax p_w.

    State: `memory` (unlabelled,), −1 until an image was once confident; `beta` (C,).
    Where an id repeats in a batch, its last confident position is remembered.
    """

    stored: ClassVar = {
        "memory": "labeler.select.labels",
        "counts": "labeler.select.counts",
        "beta": "labeler.select.beta",
    }

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        warm_up: bool = True,
        unlabelled_weight: float = 1.0,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold = threshold
        self.warm_up = warm_up
        self.state["memory"] = np.full(facts.unlabelled, -1, dtype=np.int64)
        self.state["beta"] = np.zeros(facts.classes)

    def remembered(self) -> Values:
        """The method counts "never sure" as one more class."""
        none = self.facts.classes
        memory = np.where(self.state["memory"] < 0, none, self.state["memory"])
        counts = np.bincount(memory, minlength=none + 1)
        return {**self.state, "memory": memory, "counts": counts}

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        label, beta = hard(p), self.state["beta"]
        taus = np.array([self.threshold * beta[c] / (2 - beta[c]) for c in label])
        confident = at_least(p, self.threshold)
        memory = self.state["memory"].copy()
        for position, image in enumerate(batch.id_u):
            if confident[position]:
                memory[image] = label[position]
        self.state["memory"] = memory
        self.recount()
        return {"p": p, "label": label, "threshold": taus, "mask": at_least(p, taus)}

    def recount(self) -> None:
        """β_c = σ_c / max of all counts; with warm-up the never-learned images count too."""
        memory = [int(c) for c in self.state["memory"]]
        counts = [memory.count(c) for c in range(self.facts.classes)]
        unseen = memory.count(-1)
        if unseen == len(memory):
            return
        largest = max([*counts, unseen] if self.warm_up else counts)
        self.state["beta"] = np.array([count / largest for count in counts])
