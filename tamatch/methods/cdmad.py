"""CDMAD (Lee and Kim, CVPR 2024, arXiv:2403.10391)."""

from typing import Annotated

import torch
from torch import Tensor, nn

from .. import kinds
from ..losses import each_ce
from ..modules import Shifted
from ..pseudo import Pseudo
from ..types import Batch, Loss, Task, Views
from .base import Method

DebiasAfter = Annotated[float, kinds.SHARE, "share of the run before pseudo-labels are debiased"]


class CDMAD(Method):
    """What a net says of an image without content is its bias, which is taken off its logits.

    q = softmax(z^w − z(blank)),  L = E[H(y, p(x))] + λ_u·E[H(q, p^s)] over two strong views,
    with q = p^w until `debias_after`; tests see z − z(blank). The blank image is 1 in every pixel
    after normalisation, as in their code. It is predicted as a test image is: their code normalises
    it by its own statistics in training. `parity="usb"` changes nothing.
    """

    views = Views(u=("weak", "strong", "strong"))
    alters_inputs = True  # it makes one of its own
    bias: Tensor  # z(blank) of the tested net

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_u: kinds.LambdaU = 1.0,
        debias_after: DebiasAfter = 0.2,  # their 100 of 500 epochs
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.lambda_u, self.debias_after = lambda_u, debias_after
        self.register_buffer("bias", torch.zeros(task.classes))

    def forward(self, batch: Batch) -> Loss:
        blank = torch.ones_like(batch.x[0][:1])
        bias = tested(self.net, blank)
        self.bias.copy_(bias[0] if self.average is None else tested(self.average, blank)[0])
        x, weak, one, two = self.predict(*batch.x, *batch.u, constant=1)
        late = (batch.progress >= self.debias_after).float()
        q = (weak.logits.detach() - late * bias).softmax(-1)
        mask = torch.ones_like(q[:, 0])
        pseudo = Pseudo(q, q.argmax(-1), mask, mask)
        sup = each_ce(x.logits, batch.y).mean()
        unsup = (pseudo.loss(one.logits, q) + pseudo.loss(two.logits, q)) / 2
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), **pseudo.report()}
        return Loss(sup + self.lambda_u * unsup, parts)

    @property
    def final(self) -> nn.Module:
        return Shifted(super().final, -self.bias)


@torch.no_grad()
def tested(net: nn.Module, images: Tensor) -> Tensor:
    """The logits of a net as it is tested."""
    before = net.training
    logits: Tensor = net.eval()(images).logits
    net.train(before)
    return logits
