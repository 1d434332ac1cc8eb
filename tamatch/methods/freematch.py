"""FreeMatch (Wang et al., 2022, arXiv:2205.07246)."""

import torch
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, normalize, one_hot
from ..pseudo import Part, Pseudo, SelfAdaptive
from ..stats import Ema
from ..types import Batch, Loss, Task
from .fixmatch import FixMatch


class FreeMatch(FixMatch):
    """FixMatch with self-adaptive thresholds and a fairness term.

    L = E[H(y, p(x))] + λ_u·E[m·H(ŷ, p^s)] + λ_f·L_f, with m from `pseudo.parts.SelfAdaptive`.
    `parity="usb"` starts τ̃, p̃ and h̃ at 1 and computes L_f from the first two images alone.
    """

    compiles = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        momentum: kinds.Momentum = 0.999,  # their λ
        lambda_f: kinds.FairnessWeight = 0.001,  # the benchmark's w_f
        init_threshold: kinds.StartThreshold | None = None,  # 1/C, their choice
        select: kinds.Select | Part = "freematch",
        parity: kinds.Parity = "ours",
        **fixmatch: kinds.Inherited,
    ) -> None:
        usb = parity == "usb"
        share = 1.0 if usb else 1 / task.classes
        threshold = share if init_threshold is None else init_threshold
        tuned = {"freematch": SelfAdaptive(task, momentum, threshold=threshold, share=share)}
        super().__init__(net, task, select=select, tuned=tuned, parity=parity, **fixmatch)
        self.lambda_f = lambda_f
        self.fairness = Fairness(task, momentum, share, first_two=usb)

    def forward(self, batch: Batch) -> Loss:
        return self.labels_and_loss(batch)[1]

    def labels_and_loss(self, batch: Batch) -> tuple[Pseudo, Loss]:
        """The pseudo-labels of a step, and its loss."""
        x, weak, strong = self.predict(*batch.x, *batch.u, constant=1)
        pseudo = self.labeler(weak.logits.detach(), x.logits.detach(), batch.id_u)
        sup = each_ce(x.logits, batch.y).mean()
        unsup = pseudo.loss(strong.logits)
        fair = self.fairness(pseudo, strong.logits)
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), "fair": fair.detach()}
        total = sup + self.lambda_u * unsup + self.lambda_f * fair
        return pseudo, Loss(total, {**parts, **self.labeler.report(pseudo)})


class Fairness(nn.Module):
    """L_f = Σ_c P_c·log Q_c,  P = Normalize(p̃/h̃),  Q = Normalize(p̄/h̄); 0 if nothing is selected.

    p̃ and h̃ are running means of the weak predictions and of their histogram; p̄ and h̄ are the
    mean and the histogram of the selected strong predictions. The sign is the paper's.
    """

    def __init__(self, task: Task, momentum: float, share: float, *, first_two: bool) -> None:
        super().__init__()
        start = torch.full((task.classes,), share, dtype=torch.float64)
        self.shares, self.histogram = Ema(start, momentum), Ema(start, momentum)
        self.first_two = first_two

    def forward(self, pseudo: Pseudo, logits: Tensor) -> Tensor:
        classes = logits.shape[-1]
        self.shares.update_(dist.mean_(pseudo.p.double().mean(0)))
        self.histogram.update_(dist.mean_(one_hot(pseudo.label, classes).double().mean(0)))
        p, use = logits.softmax(-1), pseudo.mask[:, None]
        if self.first_two:  # the published code used the mask as row numbers
            rows = dist.gather(p)
            p, use = rows[pseudo.mask.long().clamp(max=len(rows) - 1)], torch.ones_like(use)
        mean = dist.mean((use * p).mean(0))
        histogram = dist.mean((use * one_hot(p.argmax(-1), classes)).mean(0))
        wanted = normalize(divide(self.shares.value, self.histogram.value)).to(p.dtype)
        loss = (wanted * (normalize(divide(mean, histogram)) + 1e-12).log()).sum()
        return loss * (dist.mean(pseudo.mask.mean()) > 0)


def divide(a: Tensor, b: Tensor) -> Tensor:
    """a/b, and 0 where b is 0."""
    return torch.where(b > 0, a / torch.where(b > 0, b, 1), 0)
