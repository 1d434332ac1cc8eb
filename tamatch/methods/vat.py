"""Virtual Adversarial Training (Miyato et al., 2018, arXiv:1704.03976)."""

from typing import cast

import torch
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, entropy, ramp
from ..machine.precision import full_precision
from ..types import Batch, Loss, Task, Views
from .base import Method, constant_branch, frozen_norm, frozen_weights, gradient_of


def direction_draw(images: Tensor) -> Tensor:
    """Where the search for the adversarial direction starts."""
    return torch.randn_like(images)


def unit(directions: Tensor) -> Tensor:
    """Each image's direction at length one."""
    axes = tuple(range(1, directions.ndim))
    length: Tensor = torch.linalg.vector_norm(directions, dim=axes, keepdim=True)
    return directions / (length + 1e-16)


class VAT(Method):
    """The prediction must not change in the direction in which it changes fastest.

    L = (1/B) Σ H(y, p(x)) + λ_u·R(κ) · (1/Bu) Σ KL[q ‖ p(w + r)] + λ_e · (1/Bu) Σ H(p(w)),
    q = sg p(w),  r = ε·unit(∇_d KL[q ‖ p(w + d)]) at d = ξ·unit(noise),  one power iteration;
    R(κ) rises from 0 to 1 over the first κ of the run. At the usual ξ the single-precision gradient
    is close to rounding noise: a larger ξ finds a truer direction. The search for r is always done
    in single precision at least. `parity="usb"` changes nothing.
    """

    views = Views(u=("weak",))
    alters_inputs = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_u: kinds.LambdaU = 1.0,  # their λ, here with ramp-up
        epsilon: kinds.Epsilon = 6.0,  # in units of normalised pixels
        xi: kinds.Xi = 1e-6,  # their ξ
        lambda_entropy: kinds.EntropyWeight = 0.06,  # the benchmark's, not ramped
        rampup: kinds.Rampup = 0.4,  # the benchmark's κ
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.lambda_u, self.lambda_entropy, self.rampup = lambda_u, lambda_entropy, rampup
        self.epsilon, self.xi = epsilon, xi

    def forward(self, batch: Batch) -> Loss:
        (images,) = batch.u
        with constant_branch(images, self.net) as aside:
            exact = aside(lambda: self.unrounded(images))
            (x,) = self.predict(*batch.x)
            with frozen_norm(self.net):
                clean = self.net(images).logits
        p = clean.softmax(-1)
        q = p.detach()
        r = self.perturbation(images, q if exact is None else exact)
        with frozen_norm(self.net):
            attacked = self.net(images + r).logits
        sup = each_ce(x.logits, batch.y).mean()
        unsup = (each_ce(attacked, q) - entropy(q)).mean()
        doubt = each_ce(clean, p).mean()  # H(p), with a finite gradient where some p is 0
        total = sup + self.lambda_u * ramp(batch.progress, self.rampup) * unsup
        total = total + self.lambda_entropy * doubt
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), "entropy": doubt.detach()}
        return Loss(total, parts)

    def unrounded(self, images: Tensor) -> Tensor | None:
        """The q to search r with, where autocast rounds the other by far more than ξ moves it."""
        if not torch.is_autocast_enabled(images.device.type):
            return None
        with full_precision(images.device):
            return cast(Tensor, self.net(images).logits.softmax(-1))

    def perturbation(self, images: Tensor, q: Tensor) -> Tensor:
        """r; H(q, p) has the gradient of KL[q ‖ p], as q is fixed. Parameters get none of it."""
        probe = (self.xi * unit(dist.mine(direction_draw(dist.gather(images))))).requires_grad_()
        with full_precision(images.device), frozen_weights(self.net), frozen_norm(self.net):
            distance = each_ce(self.net(images + probe).logits, q).mean()
            gradient = gradient_of(distance, probe)  # in here, as it may recompute the pass
        return self.epsilon * unit(gradient)
