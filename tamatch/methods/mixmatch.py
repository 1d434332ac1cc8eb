"""MixMatch (Berthelot et al., 2019, arXiv:1905.02249)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .. import kinds
from ..losses import each_ce, each_mse, one_hot, ramp, sharpen
from ..types import Batch, Loss, Task, Views
from .base import Method, constant_branch, frozen_norm
from .mixing import MixUp


class MixMatch(Method):
    """Guess a label from two weak views, sharpen it, and mix everything with everything.

    q = Sharpen(½(p(w₁) + p(w₂)), T),  (x′, y′) = MixUp([x; w₁; w₂], [y; q; q]; Beta(α, α)),
    L = mean_{first B} H(y′, p(x′)) + λ_u·R(κ) · mean_{rest} (1/C)‖p(x′) − y′‖².
    `parity="usb"` changes nothing.
    """

    views = Views(u=("weak", "weak"))
    alters_inputs = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_u: kinds.LambdaU = 10.0,  # the benchmark's for ViT; 100 to 150 for WRN
        alpha: kinds.Alpha = 0.5,  # the benchmark's; theirs: 0.75
        temperature: kinds.Temperature = 0.5,  # their T
        rampup: kinds.Rampup = 0.4,  # the benchmark's κ
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.lambda_u, self.rampup = lambda_u, rampup
        self.alpha, self.temperature = alpha, temperature

    def forward(self, batch: Batch) -> Loss:
        with constant_branch(batch.u[0], self.net) as aside:
            p_1, p_2 = aside(lambda: [self.net(view).logits.softmax(-1) for view in batch.u])
            logits, mix = mixed_logits(self.net, [*batch.x, *batch.u], self.alpha)
        q = sharpen((p_1 + p_2) / 2, self.temperature)
        targets, size = mix([one_hot(batch.y, self.task.classes), q, q]), len(batch.y)
        sup = each_ce(logits[:size], targets[:size]).mean()
        unsup = each_mse(logits[size:].softmax(-1), targets[size:]).mean()
        total = sup + self.lambda_u * ramp(batch.progress, self.rampup) * unsup
        return Loss(total, {"sup": sup.detach(), "unsup": unsup.detach()})


def mixed_logits(net: nn.Module, views: Sequence[Tensor], alpha: float) -> tuple[Tensor, MixUp]:
    """Logits of the mixed views, and how they were mixed: so are their targets to be."""
    mix = MixUp(views, alpha)
    return chunked_logits(net, mix(views), len(views[0])), mix


def chunked_logits(net: nn.Module, images: Tensor, size: int) -> Tensor:
    """Logits chunk by chunk: each is normalised by itself, only the first moves the statistics."""
    first, *rest = torch.split(images, size)
    logits = [net(first).logits]
    with frozen_norm(net):
        logits += [net(chunk).logits for chunk in rest]
    return torch.cat(logits)
