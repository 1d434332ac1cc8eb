"""EfficientMatch: FixMatch, and a loss on mixed weak views that the partner's mask filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import fixmatch
from .net import NumpyNet
from .primitives import ce, hard, mix, one_hot, over_all, soft_ce
from .records import Calls, Draws, Facts, NumpyBatch, Params, Values


class Reference(fixmatch.Reference):
    """L = FixMatch + λ_mix · mean over B + Bu rows of (the partner's mask · H(mixed label, p)).

    Draws: `lams`, a Beta draw for each row before max(λ, 1 − λ), and `partners`, a permutation of
    the B + Bu rows: the labelled images, then the weak views.
    """

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        mixed_weight: float = 1.0,
        dominant: bool = False,
        **fixed: Any,
    ) -> None:
        super().__init__(params, facts, **fixed)
        self.mixed_weight, self.dominant = mixed_weight, dominant

    @classmethod
    def drawn(cls, rng: np.random.Generator, facts: Facts) -> Values:
        rows = facts.batch_labelled + facts.batch_unlabelled
        return {"lams": rng.beta(0.75, 0.75, size=rows), "partners": rng.permutation(rows)}

    @staticmethod
    def handed(draws: Draws, tensor: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        lams = tensor(np.maximum(draws["lams"], 1 - draws["lams"]))
        partners = tensor(draws["partners"])
        return {"mixing.mixup_draw": lambda *_: (lams, partners)}

    @staticmethod
    def observed(calls: Calls) -> dict[str, Any]:
        images, targets, mask = calls["mix"][-1][1]
        return {"mixed_images": images, "mixed_targets": targets, "mixed_mask": mask}

    def targets(self, batch: NumpyBatch) -> Values:
        values = super().targets(batch)
        labels = np.concatenate([batch.y, values["label"]])
        images = np.concatenate([batch.x[0], batch.u[0]])
        accepted = np.concatenate([np.ones(len(batch.y)), values["mask"]])
        goals = one_hot(labels, self.facts.classes)
        rows: list[tuple[Any, ...]] = []
        for i, (lam, j) in enumerate(
            zip(batch.draws["lams"], batch.draws["partners"], strict=True)
        ):
            one = (mix(images[i], images[j], lam), mix(goals[i], goals[j], lam), accepted[j])
            rows.append(one)
        mixed, targets, mask = (np.stack(column) for column in zip(*rows, strict=True))
        return values | {"mixed_images": mixed, "mixed_targets": targets, "mixed_mask": mask}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        logits, goals = NumpyNet(params)(values["mixed_images"]).logits, values["mixed_targets"]
        losses = ce(logits, hard(goals)) if self.dominant else soft_ce(logits, goals)
        mixed = over_all(losses, values["mixed_mask"])
        return super().terms(params, batch, values) | {"mixed": mixed}

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return super().factors(batch) | {"mixed": self.mixed_weight}
