"""ABC (Lee, Shin and Kim, 2021, arXiv:2110.10368): an auxiliary balanced classifier."""

import torch
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce
from ..pseudo import Pseudo
from ..types import Batch, Loss, Task
from .base import Head
from .fixmatch import FixMatch


def lots(count: int, device: torch.device) -> Tensor:
    """A number in [0, 1) for each of `count` images of this process."""
    return dist.mine(torch.rand(dist.world() * count, device=device))


class ABC(FixMatch):
    """FixMatch trains one head g, and the net's own head sees as many images of each class.

    L = L_FixMatch(g) + (1/B) Σ b(y)·H(y, p(x)) + (1/Bu) Σ b_t(ŷ)·m·H(ŷ, p^s),
    ŷ = argmax p^w,  m = 1[max p^w ≥ τ],  b(c) drawn as 1 with probability k_c = min π / π_c, π the
    labelled class shares, and b_t(c) with 1 − t·(1 − k_c), t the share of the run that is over.

    The paper's labels are soft; these are hard, as in the benchmark. `parity="usb"` changes
    nothing.
    """

    keep: Tensor  # k

    def __init__(
        self, net: nn.Module, task: Task, *, tau: kinds.Tau = 0.95, **fixmatch: kinds.Inherited
    ) -> None:
        super().__init__(net, task, tau=tau, **fixmatch)
        self.tau = tau
        self.second = Head(net, task)
        shares = torch.tensor(task.labelled_shares)
        self.register_buffer("keep", shares.min() / shares)

    def forward(self, batch: Batch) -> Loss:
        x, weak, strong = self.predict(*batch.x, *batch.u, constant=1)
        g_x, g_w, g_s = (self.second(out) for out in (x, weak, strong))
        pseudo = self.labeler(g_w.detach(), g_x.detach(), batch.id_u)
        sup = each_ce(g_x, batch.y).mean()
        unsup = pseudo.loss(g_s)
        balanced = self.balanced(weak.logits.detach(), batch.progress)
        drawn = lots(len(batch.y), batch.y.device) < self.keep[batch.y]
        both = (drawn * each_ce(x.logits, batch.y)).mean() + balanced.loss(strong.logits)
        terms = {"sup": sup, "unsup": unsup, "balanced": both}
        parts = {name: term.detach() for name, term in terms.items()}
        total = sup + self.lambda_u * unsup + both
        return Loss(total, {**parts, **self.labeler.report(pseudo)})

    def balanced(self, logits: Tensor, progress: Tensor) -> Pseudo:
        """The balanced head's own labels; of those accepted, ever fewer of frequent classes."""
        p = logits.softmax(-1)
        label = p.argmax(-1)
        drawn = lots(len(p), p.device) < (1 - progress * (1 - self.keep))[label]
        mask = (p.amax(-1) >= self.tau).float() * drawn
        return Pseudo(p, label, mask, torch.ones_like(mask))
