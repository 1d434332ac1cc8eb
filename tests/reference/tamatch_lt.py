"""TaMatch-LT: logits adjusted by r = p_target / p_model, p_target uniform, and a plain head."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .masked import HardLabels
from .net import CLASSES, WIDTH, NumpyNet, linear, linear_shapes
from .primitives import at_least, ce, hard, mean_row, moved, normalise, over_all, softmax
from .records import Array, Facts, NumpyBatch, Params, Values

EPSILON = 1e-6


def adjustment(shares: Array, strength: float) -> Array:
    """−κ·log r with r = (1/C + ε) / (shares + ε)."""
    return -strength * np.log((1 / len(shares) + EPSILON) / (shares + EPSILON))


class Reference(HardLabels):
    """L = CE(z_x − κ·log r_l, y) + λu · mean(mask · CE(z_s − κ·log r, ŷ)), and so for g without r.

    ŷ and mask come from p/r, p = softmax(½z + ½(g + log r_g)). r is p_model's as the step before
    left it where labels are made, and as this step leaves it in the loss; r_l is that of the
    labelled class shares, r_g of their mean with p_model. Without `second.*` there is no g. The
    labelled losses are means over both views.
    """

    x_views = ("weak", "strong")
    heads = linear_shapes("second", WIDTH, CLASSES)
    stored: ClassVar = {"p_model": "labeler.status.model.value", "used": "used.value"}

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        threshold: float = 0.95,
        strength: float = 2.0,
        model_momentum: float = 0.999,
        accepted: bool = False,
        unlabelled_weight: float = 1.0,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=unlabelled_weight)
        self.threshold, self.strength = threshold, strength
        self.model_momentum, self.accepted = model_momentum, accepted
        self.state["p_model"] = np.full(facts.classes, 1 / facts.classes)
        if accepted:
            self.state["used"] = np.full(facts.classes, 1 / facts.classes)

    def targets(self, batch: NumpyBatch) -> Values:
        weak, model = self.net(batch.u[0]), self.state["p_model"]
        logits, shares = weak.logits, np.array(self.facts.labelled_shares)
        if "second.bias" in self.params:
            plain = linear(self.params, "second", weak.features)
            logits = (logits + plain - adjustment((shares + model) / 2, 1.0)) / 2
        p = softmax(logits)
        aligned = normalise(p * np.exp(adjustment(model, 1.0)))
        label, mask = hard(aligned), at_least(aligned, self.threshold)
        self.state["p_model"] = moved(model, mean_row(aligned), self.model_momentum)
        learnt = self.state["p_model"]
        if self.accepted:
            count = np.array([mask[label == c].sum() for c in range(len(model))])
            if count.any():
                used, found = self.state["used"], count / count.sum()
                self.state["used"] = moved(used, found, self.model_momentum)
            learnt = self.state["used"]
        return {
            "p": p,
            "aligned": aligned,
            "label": label,
            "mask": mask,
            "adjust_x": adjustment(shares, self.strength),
            "adjust_u": adjustment(learnt, self.strength),
        }

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        x, strong = [NumpyNet(params)(view) for view in batch.x], NumpyNet(params)(batch.u[1])
        labelled = [ce(view.logits + values["adjust_x"], batch.y) for view in x]
        unlabelled = ce(strong.logits + values["adjust_u"], values["label"])
        terms = {
            "labelled": float(np.mean(labelled)),
            "unlabelled": over_all(unlabelled, values["mask"]),
        }
        if "second.bias" not in params:
            return terms
        plain_x = [ce(linear(params, "second", view.features), batch.y) for view in x]
        plain_u = ce(linear(params, "second", strong.features), values["label"])
        follow = self.unlabelled_weight * over_all(plain_u, values["mask"])
        return {**terms, "second": float(np.mean(plain_x)) + follow}

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        return {**super().factors(batch), "second": 1.0}
