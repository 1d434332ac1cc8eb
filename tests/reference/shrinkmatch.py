"""ShrinkMatch: unsure images in a space of classes without the likeliest rivals."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .alignment import QUEUE, align_by_queue, start_queue
from .masked import SoftLabels
from .net import CLASSES, WIDTH, NumpyNet, linear_shapes
from .primitives import at_least, ce, moved, softmax
from .records import Array, Facts, NumpyBatch, Params, Values

HIDDEN = WIDTH // 4


def norm_shapes(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (HIDDEN,), f"{name}.bias": (HIDDEN,)}


def normalised(params: Params, name: str, rows: Array) -> Array:
    """BatchNorm by the batch's own mean and variance."""
    spread = np.sqrt(rows.var(axis=0) + 1e-5)
    return (rows - rows.mean(axis=0)) / spread * params[f"{name}.weight"] + params[f"{name}.bias"]


def auxiliary(params: Params, rows: Array) -> Array:
    """Two layers of linear, BatchNorm and leaky ReLU, and a linear one."""
    for number in (0, 3):
        rows = rows @ params[f"auxiliary.{number}.weight"].T
        rows = normalised(params, f"auxiliary.{number + 1}", rows)
        rows = np.where(rows > 0, rows, 0.1 * rows)
    return rows @ params["auxiliary.6.weight"].T + params["auxiliary.6.bias"]


def remaining(p: Array, threshold: float) -> list[int]:
    """The class itself and its rivals after the fewest were removed; none if that never helps."""
    order = sorted(range(len(p)), key=lambda c: -p[c])
    for removed in range(1, len(p) - 1):
        classes = [order[0], *order[removed + 1 :]]
        if p[order[0]] / sum(p[c] for c in classes) >= threshold:
            return classes
    return []


class Reference(SoftLabels):
    """L = CE_lb + mean(mask · H(p̃, p_s)) + κ · mean(unsure · max p̃ · CE(a_s over K, ŷ)).

    p̃ is p aligned to uniform by the last 32 batches, K the `remaining` classes, a_s the auxiliary
    head. State, moved before use: `certain` κ, the running mean of the share of sure images, of
    which the first is taken as it is; `queue`, `queue_pointer`.
    """

    heads: ClassVar = {
        "auxiliary.0.weight": (HIDDEN, WIDTH),
        **norm_shapes("auxiliary.1"),
        "auxiliary.3.weight": (HIDDEN, HIDDEN),
        **norm_shapes("auxiliary.4"),
        **linear_shapes("auxiliary.6", HIDDEN, CLASSES),
    }
    stored: ClassVar = {
        "certain": "certain.value",
        "queue": "labeler.status.model.rows",
        "queue_pointer": "labeler.status.model.at",
    }
    settings: ClassVar = {
        "other values": {"tau": 0.8, "lambda_u": 2.0, "momentum": 0.6, "window": 4}
    }

    def __init__(
        self,
        params: Params,
        facts: Facts,
        *,
        tau: float = 0.95,
        lambda_u: float = 1.0,
        momentum: float = 0.999,
        window: int = QUEUE,
    ) -> None:
        super().__init__(params, facts, unlabelled_weight=lambda_u)
        self.tau, self.momentum = tau, momentum
        start_queue(self.state, facts.classes, window)

    def targets(self, batch: NumpyBatch) -> Values:
        p = softmax(self.net(batch.u[0]).logits)
        aligned = align_by_queue(self.state, p)
        mask = at_least(aligned, self.tau)
        share = np.array(mask.mean())
        self.state["certain"] = moved(self.state.get("certain", share), share, self.momentum)
        kept = np.zeros_like(p)
        for row, sure, classes in zip(
            kept, mask, [remaining(row, self.tau) for row in aligned], strict=True
        ):
            row[[] if sure else classes] = 1
        return {"p": p, "aligned": aligned, "target": aligned, "mask": mask, "kept": kept}

    def terms(self, params: Params, batch: NumpyBatch, values: Values) -> dict[str, float]:
        strong = NumpyNet(params)(batch.u[1])
        logits = auxiliary(params, strong.features)
        losses = []
        for row, aligned, kept in zip(logits, values["aligned"], values["kept"], strict=True):
            classes = np.flatnonzero(kept)
            label = np.flatnonzero(classes == aligned.argmax())
            losses.append(aligned.max() * ce(row[classes][None], label)[0] if len(classes) else 0)
        own = {"shrunk": sum(losses) / len(losses)}
        return super().terms(params, batch, values) | own

    def factors(self, batch: NumpyBatch) -> dict[str, float]:
        own = {"shrunk": self.unlabelled_weight * float(self.state["certain"])}
        return super().factors(batch) | own
