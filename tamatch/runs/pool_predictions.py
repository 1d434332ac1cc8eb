"""What a finished run predicts of each unlabelled image, and whether it was used in training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..data.dataset import Indices
from ..judge.calibration import Floats, tempered
from ..judge.trust import sweep
from ..methods.base import Method
from ..pseudo.account import accepted, class_shares, generated, threshold
from ..step.engine import Engine
from ..step.source import UNLABELLED
from ..step.subset import PREDICTION_COLUMNS, Pool

CHUNK = 8192  # images whose probabilities are held at once
COLUMNS = (*PREDICTION_COLUMNS, "second", "pseudo_label", "pseudo_confidence", "accepted")


@dataclass(frozen=True)
class PoolPredictions:
    """One entry per image of the pool.

    What the model predicts is its own answer. A pseudo-label is what the method makes of the answer
    of the net in training, for example by rescaling, before it compares the confidence with τ.
    """

    predicted: Indices
    confidence: Floats
    second: Indices
    pseudo_label: Indices
    pseudo_confidence: Floats
    drawn: npt.NDArray[np.bool_]  # at least once in training
    accepted: Indices | None  # how often in training; None where the method has no such rule

    @property
    def never(self) -> Indices:
        """Positions of the images that were drawn and never accepted, the most doubtful first."""
        if self.accepted is None:
            return np.empty(0, np.int64)
        places = np.flatnonzero(self.drawn & (self.accepted == 0))
        return places[np.argsort(self.confidence[places], kind="stable")]

    def lines(self, pool: Pool, places: Iterable[int]) -> Iterator[tuple[str, ...]]:
        """What `COLUMNS` names, of these images."""
        names = pool.data.classes
        for i in places:
            yield (
                *pool.line(i, int(self.predicted[i]), float(self.confidence[i])),
                names[self.second[i]],
                names[self.pseudo_label[i]],
                f"{self.pseudo_confidence[i]:.6f}",
                "" if self.accepted is None else str(self.accepted[i]),
            )


def predict_pool(engine: Engine, pool: Pool, temperature: float = 1.0) -> PoolPredictions:
    """Predict every image of the pool without augmentation; the engine stays as it is."""
    starts = range(0, len(pool), CHUNK)
    parts = [predict_images(engine, pool.images[i : i + CHUNK], temperature) for i in starts]
    best, confidence, second, label, sure = map(np.concatenate, zip(*parts, strict=True))
    count = accepted(engine.method)
    times = None if count is None else count.cpu().numpy().astype(np.int64)[pool.places]
    return PoolPredictions(
        best, confidence, second, label, sure, drawn(engine)[pool.places], accepted=times
    )


def predict_images(engine: Engine, images: torch.Tensor, temperature: float) -> tuple[Any, ...]:
    """The first five columns of a `PoolPredictions` for some images."""
    p = engine.probabilities(images)
    sure, label = pseudo_label_probabilities(engine, images, p).max(-1)
    own = tempered(p.cpu().numpy(), temperature)
    order = np.argsort(-own, axis=-1, kind="stable")
    best, second = order[:, 0], order[:, min(1, own.shape[1] - 1)]
    return best, own.max(-1), second, label.cpu().numpy(), sure.double().cpu().numpy()


@torch.no_grad()
def pseudo_label_probabilities(
    engine: Engine, images: torch.Tensor, final: torch.Tensor | None = None
) -> torch.Tensor:
    """(n, C): what pseudo-labels are made from, by the trained net itself and not its average.

    `final` are the probabilities by the final net: where that is the same net, they are reused.
    """
    method = engine.method
    if method.average is not None or final is None:
        final = engine.probabilities(images, of=method.net)
    return generated(method, final)


def drawn(engine: Engine) -> npt.NDArray[np.bool_]:
    """Which images of the pool the whole training sees, in all processes together."""
    whole = copy(engine.source.samplers[UNLABELLED])
    whole.slots = range(whole.batch)
    seen, steps = np.zeros(whole.count, bool), engine.pace.steps
    block = whole.count // whole.batch + 1  # about a pass: the ids of all steps may not fit
    for step in range(0, steps, block):
        if seen.all():
            break
        seen[whole.ids(step, min(block, steps - step))] = True
    return seen


def told_by(method: Method) -> dict[str, Any]:
    """What a method knows about the pool."""
    return {**class_shares(method), "tau": threshold(method)}


def summary(found: PoolPredictions, pool: Pool, told: Mapping[str, Any]) -> dict[str, Any]:
    """What trust.json says about the pool."""
    truth = pool.truth
    right = None if truth is None else found.pseudo_label == truth
    counts = np.bincount(found.predicted, minlength=pool.classes)
    return {
        "images": len(pool),
        "drawn": int(found.drawn.sum()),
        "never_accepted": None if found.accepted is None else len(found.never),
        "predicted_shares": (counts / len(pool)).tolist(),
        "accuracy": None if truth is None else float((found.predicted == truth).mean()),
        **told,
        "sweep": [asdict(level) for level in sweep(found.pseudo_confidence, right)],
    }
