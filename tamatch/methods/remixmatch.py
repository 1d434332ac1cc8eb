"""ReMixMatch (Berthelot et al., 2020, arXiv:1911.09785)."""

from typing import cast

import torch
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, one_hot, ramp, sharpen
from ..stats import Status
from ..types import Batch, Loss, Task, Views
from .base import Method, constant_branch, frozen_norm, quarter_turned
from .mixmatch import mixed_logits


def turn_draw(count: int, device: torch.device) -> Tensor:
    """How many quarter turns each of `count` images gets: 0, 1, 2 or 3."""
    return torch.randint(4, (count,), device=device)


class ReMixMatch(Method):
    """MixMatch with aligned guesses, strong views, and a second task: which way up is the image?

    q = Sharpen(Normalize(p(w) ⊙ p_target/p_model), T),  p_target = labelled class shares,
    (x′, y′) = MixUp([x; s₁; s₂; w], [y; q; q; q]; Beta(α, α)),
    L = (1/B) Σ_{first B} H(y′, p(x′)) + λ_u·R · mean_{rest} H(y′, p(x′))
      + λ_s·R · (1/Bu) Σ H(q, p(s₁)) + λ_r · (1/Bu) Σ H(turn, p_r(turned s₁)),
    R rising from 0 to 1 over the first κ of the run. The paper strengthens by CTAugment, with more
    strong views. `parity="usb"` changes nothing.
    """

    views = Views(u=("weak", "strong", "strong"))
    alters_inputs = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_u: kinds.LambdaU = 1.5,  # their λ_U
        lambda_strong: kinds.StrongWeight = 0.5,  # their λ_Û1
        lambda_rotation: kinds.RotationWeight = 0.5,  # their λ_r
        alpha: kinds.Alpha = 0.75,  # their α
        temperature: kinds.Temperature = 0.5,  # their T
        momentum: kinds.Momentum = 0.999,  # the benchmark's
        rampup: kinds.Rampup = 1 / 64,  # the benchmark's κ
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.lambda_u, self.lambda_strong = lambda_u, lambda_strong
        self.lambda_rotation, self.rampup = lambda_rotation, rampup
        self.alpha, self.temperature = alpha, temperature
        self.status = Status(task, momentum=momentum, target="labelled", from_first=True)
        self.rotation = nn.Linear(cast(int, net.width), 4)

    def forward(self, batch: Batch) -> Loss:
        weak, strong, other = batch.u
        with constant_branch(weak, self.net) as aside:
            q = aside(lambda: self.guess(weak))
            turn = dist.mine(turn_draw(dist.world() * len(strong), strong.device))
            with frozen_norm(self.net):
                strong_logits = self.net(strong).logits
                turned = self.rotation(self.net(turned_by(strong, turn)).features)
            logits, mix = mixed_logits(self.net, [*batch.x, strong, other, weak], self.alpha)
        size, targets = len(batch.y), mix([one_hot(batch.y, self.task.classes), q, q, q])
        mixed = each_ce(logits, targets)
        sup, unsup = mixed[:size].mean(), mixed[size:].mean()
        unmixed = each_ce(strong_logits, q).mean()
        rotation = each_ce(turned, turn).mean()
        consistency = self.lambda_u * unsup + self.lambda_strong * unmixed
        total = sup + ramp(batch.progress, self.rampup) * consistency
        total = total + self.lambda_rotation * rotation
        terms = {"sup": sup, "unsup": unsup, "strong": unmixed, "rotation": rotation}
        status = {"p_model": self.status.model.value, "p_target": self.status.target.value}
        return Loss(total, {**{name: term.detach() for name, term in terms.items()}, **status})

    def guess(self, weak: Tensor) -> Tensor:
        """q, aligned before it is sharpened."""
        p = self.net(weak).logits.softmax(-1)
        self.status.observe_(p, p)
        return sharpen(self.status.align(p), self.temperature)


def turned_by(images: Tensor, turn: Tensor) -> Tensor:
    """Each image turned counter-clockwise by its own number of quarter turns."""
    turns = torch.stack([quarter_turned(images, k) for k in range(4)])
    return turns[turn, torch.arange(len(turn), device=turn.device)]
