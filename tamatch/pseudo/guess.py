"""From weak predictions to pseudo-labels, in three independent choices."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .. import dist
from ..losses import each_ce, one_hot
from ..stats import Status, Tally


class Guess(NamedTuple):
    """What a part may look at: the predictions of this batch and the learning status."""

    p_w: Tensor  # (Bu, C) predictions on the weak views, as the model gives them
    p: Tensor  # (Bu, C) the same after generation: labels and confidences come from here
    p_x: Tensor  # (B, C) predictions on the labelled images
    ids: Tensor  # (Bu,) which images these are
    status: Status
    learn: bool = True  # False: a part uses what it remembers and changes nothing

    @property
    def label(self) -> Tensor:
        return self.p.argmax(-1)

    @property
    def confidence(self) -> Tensor:
        return self.p.amax(-1)


Part = Callable[[Guess], Tensor]


class Pseudo(NamedTuple):
    """Pseudo-labels ŷ, who is used (mask m) and how much each counts (weight w)."""

    p: Tensor
    label: Tensor
    mask: Tensor
    weight: Tensor

    def loss(self, logits: Tensor, target: Tensor | None = None) -> Tensor:
        """(1/Bu) Σ w·m·H(ŷ, p^s), or with a soft target; the rejected stay in the denominator."""
        target = self.label if target is None else target
        return (self.weight * self.mask * each_ce(logits, target)).mean()

    def report(self) -> dict[str, Tensor]:
        """Utilization, overall and by predicted class, and the weights of those used."""
        chosen = one_hot(self.label, self.p.shape[-1])
        used = dist.sum_(self.mask.sum())
        mean_weight = dist.sum_((self.mask * self.weight).sum()) / used.clamp(min=1)
        return {
            "used": self.mask.mean(),
            "used_by_class": (chosen * self.mask[:, None]).mean(0),
            "predicted_by_class": chosen.mean(0),
            "weight": torch.where(used > 0, mean_weight, 1.0),  # 1 where no image is used
            "max_weight": (self.mask * self.weight).amax(),
            "confidence": self.p.amax(-1).mean(),
        }


class PseudoLabeler(nn.Module):
    """Generation, selection and utilization: any three parts fit together.

    A part is a plain function of a `Guess` if it is stateless, a module if it remembers.
    """

    def __init__(
        self, status: Status, generate: Part, select: Part, weigh: Part, tally: Tally
    ) -> None:
        super().__init__()
        self.status, self.tally = status, tally
        self.generate, self.select, self.weigh = generate, select, weigh

    @torch.no_grad()
    def forward(
        self, logits_u: Tensor, logits_x: Tensor, ids: Tensor, *, learn: bool = True
    ) -> Pseudo:
        p_w, p_x = logits_u.softmax(-1), logits_x.softmax(-1)
        if learn and not self.status.late:
            self.status.observe_(p_w, p_x)
        guess = Guess(p_w, p_w, p_x, ids, self.status, learn)
        guess = guess._replace(p=self.generate(guess))
        pseudo = Pseudo(guess.p, guess.label, self.select(guess), self.weigh(guess))
        if learn:
            self.tally.add_(ids, pseudo.mask)
        if learn and self.status.late:
            self.status.observe_(p_w if self.status.of == "raw" else guess.p, p_x)
        return pseudo

    def report(self, pseudo: Pseudo) -> dict[str, Tensor]:
        """What the run's log says about this step's pseudo-labels and about the learning status."""
        status = {"p_model": self.status.model.value, "p_target": self.status.target.value}
        return {**pseudo.report(), **status}
