"""InfoMatch (Han et al., IJCAI 2024, arXiv:2404.11003)."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, one_hot
from ..pseudo import Part, Pseudo
from ..types import Batch, Loss, Task, Views
from .fixmatch import FixMatch
from .mixing import Box, beta_logit


class InfoMatch(FixMatch):
    """Pseudo-labels by FreeMatch's thresholds, for two strong views and for CutMix of the weak one.

    L = E[H(y, p(x))] + λ_u·(½·E[m·H(ŷ, p^s)] + ½·E[λ·m·H(ŷ, p(x̃)) + (1−λ)·m′·H(ŷ′, p(x̃))]
      + λ_a·E[(1/C)‖z̄^s₁ − z̄^s₂‖²]),  x̃ = CutMix(w, w′),
    over both strong views s; λ the share of w in x̃; w′ a random partner, ŷ′ and m′ its own; z̄ the
    logits of an image, less their mean and divided by their standard deviation. Each image has a
    box of its own for w′, √min(b, 1−b) of the sides, b ~ Beta(α, α).

    From github.com/kunzhan/InfoMatch. There the strong views have the crop and the mirror image of
    the weak one, here their own. Its file for SVHN has FixMatch's fixed threshold: `select`. The
    paper derives the last term from a bound on mutual information; this is what the code
    computes. `parity="usb"` changes nothing.
    """

    views = Views(u=("weak", "strong", "strong"))
    alters_inputs = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_u: kinds.LambdaU = 2.0,  # all as in their code
        lambda_agreement: kinds.AgreementWeight = 0.001,
        alpha: kinds.Alpha = 1.0,
        select: kinds.Select | Part = "freematch",
        **fixmatch: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, lambda_u=lambda_u, select=select, **fixmatch)
        self.lambda_agreement, self.alpha = lambda_agreement, alpha

    def forward(self, batch: Batch) -> Loss:
        cut = self.mix(batch.u[0])
        x, weak, *strong, mixed = self.predict(*batch.x, *batch.u, cut.images, constant=1)
        pseudo = self.labeler(weak.logits.detach(), x.logits.detach(), batch.id_u)
        first, second = (standardised(out.logits) for out in strong)
        terms = {
            "sup": each_ce(x.logits, batch.y).mean(),
            "unsup": torch.stack([pseudo.loss(out.logits) for out in strong]).mean(),
            "mixed": each_ce(mixed.logits, cut.target(pseudo)).mean(),
            "agreement": (first - second).square().mean(),
        }
        follow = (terms["unsup"] + terms["mixed"]) / 2 + self.lambda_agreement * terms["agreement"]
        parts = {name: term.detach() for name, term in terms.items()}
        return Loss(terms["sup"] + self.lambda_u * follow, {**parts, **self.labeler.report(pseudo)})

    def mix(self, images: Tensor) -> "Cut":
        """Each image with a piece of a partner, which may come from any process."""
        drawn = cut_draw(dist.world() * len(images), self.alpha, images.device)
        side, row, column, partner = (dist.mine(numbers) for numbers in drawn)
        pasted, left = Box(images, side, (row, column)).paste(images, dist.gather(images)[partner])
        return Cut(pasted, left, partner)


class Cut(NamedTuple):
    """Images with pieces of their partners."""

    images: Tensor
    left: Tensor  # (N,) λ, the share of an image that is left
    partner: Tensor  # (N,) its partner's row among those of all processes

    def target(self, pseudo: Pseudo) -> Tensor:
        """λ·m·1[ŷ] + (1−λ)·m′·1[ŷ′], m times its weight; zero where both were rejected."""
        counts = (pseudo.weight * pseudo.mask)[:, None]
        wanted = counts * one_hot(pseudo.label, pseudo.p.shape[-1])
        left = self.left.to(wanted)[:, None]
        return left * wanted + (1 - left) * dist.gather(wanted)[self.partner]


def cut_draw(count: int, alpha: float, device: torch.device) -> tuple[Tensor, ...]:
    """The side and the centre's row and column of each box, and a random partner of each image."""
    side = beta_logit((count,), alpha, device).abs().neg().sigmoid().sqrt()
    row, column, order = torch.rand(3, count, device=device)
    return side, row, column, order.argsort()


def standardised(logits: Tensor) -> Tensor:
    """z̄, and 0 where all are equal."""
    centred = logits - logits.mean(-1, keepdim=True)
    return centred * (logits.var(-1, keepdim=True) + 1e-12).rsqrt()
