"""EfficientMatch (2026): the mixed images that it adds to FixMatch."""

import torch
from torch import Tensor, nn

from .. import kinds
from ..losses import each_ce, one_hot
from ..pseudo import Pseudo
from ..types import Batch, Loss, Task
from .fixmatch import FixMatch
from .mixing import Mixed, MixUp


class EfficientMatch(FixMatch):
    """FixMatch, and a loss on mixed weak views that the acceptance of the partner filters.

    L = (1/B) Σ H(y, p(x)) + λ_u · (1/Bu) Σ w·m·H(ŷ, p^s) + λ_mix · (1/(B+Bu)) Σ m′·H(ỹ, p(x̃)),
    x̃ = λx + (1−λ)x′ and ỹ = λ·1[y] + (1−λ)·1[y′] over the pool of all labelled images with their
    labels and all weak views with ŷ; x′ a random partner, λ = max(b, 1−b) ≥ ½, b ~ Beta(α, α), for
    each x̃; m′ = 1 if x′ is labelled, else its m. `mix_target="dominant"`: argmax ỹ, which is y.

    From github.com/BB-Erwan/EfficientMatch, scripts/efficientmatch.py; its thresholds of FlexMatch
    and FreeMatch are `select`. Mixed images are a pass of their own, as there. `parity="usb"`
    changes nothing.
    """

    alters_inputs = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_mix: kinds.MixWeight = 1.0,  # their λ_mix; 0.5 and 2 are slower
        alpha: kinds.Alpha = 0.75,  # their α
        mix_target: kinds.MixTarget = "mixed",  # theirs, "semi-soft"; "dominant" is their "hard"
        **fixmatch: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **fixmatch)
        self.lambda_mix, self.alpha, self.mix_target = lambda_mix, alpha, mix_target

    def forward(self, batch: Batch) -> Loss:
        x, weak, strong = self.predict(*batch.x, *batch.u, constant=1)
        pseudo = self.labeler(weak.logits.detach(), x.logits.detach(), batch.id_u)
        sup = each_ce(x.logits, batch.y).mean()
        unsup = pseudo.loss(strong.logits)
        mixed = self.mixed_loss(batch, pseudo)
        terms = {"sup": sup, "unsup": unsup, "mixed": mixed}
        parts = {name: term.detach() for name, term in terms.items()}
        total = sup + self.lambda_u * unsup + self.lambda_mix * mixed
        return Loss(total, {**parts, **self.labeler.report(pseudo)})

    def mixed_loss(self, batch: Batch, pseudo: Pseudo) -> Tensor:
        mixed = self.mix(batch, pseudo)
        target = mixed.target.argmax(-1) if self.mix_target == "dominant" else mixed.target
        (out,) = self.predict(mixed.images)
        return (mixed.mask * each_ce(out.logits, target)).mean()

    def mix(self, batch: Batch, pseudo: Pseudo) -> Mixed:
        """Every labelled image and weak view with a random partner; `mask` is the partner's."""
        views = [batch.x[0], batch.u[0]]
        mix = MixUp(views, self.alpha, each=True)
        targets = [one_hot(label, pseudo.p.shape[-1]) for label in (batch.y, pseudo.label)]
        labelled = torch.ones_like(batch.y, dtype=pseudo.mask.dtype)
        return Mixed(mix(views), mix(targets), mix.partners([labelled, pseudo.mask]))
