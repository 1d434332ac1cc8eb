"""ShrinkMatch (Yang et al., ICCV 2023, arXiv:2308.06777)."""

from typing import cast

import torch
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce
from ..machine.precision import without_autocast
from ..pseudo import Part, Pseudo
from ..stats import Ema, Status
from ..types import Batch, Loss, Out, Task
from .fixmatch import FixMatch


class ShrinkMatch(FixMatch):
    """FixMatch, and unsure images learn, too: against all classes but those they are mistaken for.

    L = E[H(y, p(x))] + λ_u·(E[m·H(q, p^s)] + κ·E[(1−m)·max q·H(ŷ, a^s on K)]),
    q = Normalize(p^w / p_model),  m = 1[max q ≥ τ],  κ the running mean of m's means,
    p_model the mean of the last 32 batches, and a^s the prediction of a head that only learns so.
    K is the class ŷ and all but its c likeliest rivals, with the smallest c ≥ 1 such that
    q_ŷ / Σ_K q ≥ τ; an image of which no rival is left does not count.

    As in github.com/LiheYoung/ShrinkMatch, CIFAR. There κ begins anew every 1,024 steps, because a
    loop forgets it; not so in its code for STL-10 and SVHN, which instead takes hard labels for the
    sure images, and divides by p_model, a running mean, for these alone. `parity="usb"` changes
    nothing.
    """

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.95,  # all as in their code
        momentum: kinds.Momentum = 0.999,  # of κ
        window: kinds.AlignedBatches = 32,
        generate: kinds.Generate | Part = "rescale",
        **fixmatch: kinds.Inherited,
    ) -> None:
        status = Status(task, window=window)
        super().__init__(net, task, tau=tau, generate=generate, status=status, **fixmatch)
        self.tau = tau
        self.certain = Ema(0.0, momentum, from_first=True)
        self.auxiliary = auxiliary_head(cast(int, net.width), task.classes)

    def forward(self, batch: Batch) -> Loss:
        x, weak, strong = self.predict(*batch.x, *batch.u, constant=1)
        pseudo = self.labeler(weak.logits.detach(), x.logits.detach(), batch.id_u)
        certain = self.certain.update_(dist.mean_(pseudo.mask.double().mean()))
        sup = each_ce(x.logits, batch.y).mean()
        unsup = pseudo.loss(strong.logits, pseudo.p)
        shrunk = self.shrunk_loss(pseudo, strong)
        total = sup + self.lambda_u * (unsup + certain.to(shrunk) * shrunk)
        terms = {"sup": sup, "unsup": unsup, "shrunk": shrunk}
        parts = {name: term.detach() for name, term in terms.items()}
        return Loss(total, {**parts, **self.labeler.report(pseudo)})

    def shrunk_loss(self, pseudo: Pseudo, strong: Out) -> Tensor:
        with without_autocast(strong.features.device):
            logits = self.auxiliary(strong.features)
        order, kept = shrunk(pseudo.p, self.tau)
        remaining = logits.gather(-1, order).masked_fill(~kept, -torch.inf)
        losses = each_ce(remaining, torch.zeros_like(pseudo.label))  # ŷ is the first in order
        counts = (1 - pseudo.mask) * kept[:, 1:].any(-1)
        return (counts * pseudo.p.amax(-1) * losses).mean()


def shrunk(p: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """The classes of each row by falling probability, and which of these remain.

    Besides the first these are all from the third on beside whom, and all less likely ones, the
    first is sure.
    """
    falling, order = p.sort(stable=True, dim=-1, descending=True)
    rest = falling.flip(-1).cumsum(-1).flip(-1)  # Σ of each and all that are less likely
    first, place = falling[:, :1], torch.arange(p.shape[-1], device=p.device)
    return order, (place == 0) | (place > 1) & (first >= tau * (first + rest))


def auxiliary_head(width: int, classes: int) -> nn.Sequential:
    """Two hidden layers, a quarter as wide as the features."""
    hidden = max(width // 4, 1)
    return nn.Sequential(
        nn.Linear(width, hidden, bias=False), Norm(hidden), nn.LeakyReLU(0.1),
        nn.Linear(hidden, hidden, bias=False), Norm(hidden), nn.LeakyReLU(0.1),
        nn.Linear(hidden, classes),
    )  # fmt: skip


class Norm(nn.Module):
    """BatchNorm over the rows of all processes, for layers that are never tested."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        centred = x - dist.mean(x.mean(0))
        variance = dist.mean(centred.square().mean(0))
        return centred * (variance + self.eps).rsqrt() * self.weight + self.bias
