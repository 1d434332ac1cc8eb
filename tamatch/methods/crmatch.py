"""CRMatch (Fan et al., 2021, arXiv:2112.05825)."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from .. import dist, kinds
from ..losses import each_ce
from ..pseudo import compose
from ..stats import Status
from ..types import Batch, Loss, Task
from .base import Method, quarter_turned


class CRMatch(Method):
    """FixMatch whose features keep the two views apart and know which way up an image is.

    L = (1/B) Σ H(y, p(x)) + λ_u · (1/Bu) Σ m·H(ŷ, p^s) + λ_d · (1/Bu) Σ m·max(0, cos(d^s, d^w))
      + λ_r · (1/4B) Σ H(turn, p_r(turned w)),  ŷ = argmax p^w,  m = 1[max p^w ≥ τ],
    d the distance head on the feature map; each of the first B weak views is turned all four ways.
    The published code draws the images to turn from a loader of their own; `parity="usb"` does
    not bring that back and changes nothing.
    """

    alters_inputs = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.95,  # their τ
        lambda_u: kinds.LambdaU = 1.0,  # all three 1 in the benchmark
        lambda_distance: kinds.DistanceWeight = 1.0,
        lambda_rotation: kinds.RotationWeight = 1.0,
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.lambda_u = lambda_u
        self.lambda_distance, self.lambda_rotation = lambda_distance, lambda_rotation
        self.labeler = compose(task, Status(task), tau=tau)
        width, map_width = cast(int, net.width), cast(int, net.map_width)
        self.rotation = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
        self.distance = nn.Linear(map_width, width)

    def forward(self, batch: Batch) -> Loss:
        first = dist.gather(batch.u[0])[: dist.world() * len(batch.y)]
        upright = dist.mine(first)
        turned_images = torch.cat([quarter_turned(upright, k) for k in range(4)])
        turn = torch.arange(4, device=upright.device).repeat_interleave(len(upright))
        x, weak, strong, turned = self.predict(*batch.x, *batch.u, turned_images)
        pseudo = self.labeler(weak.logits.detach(), x.logits.detach(), batch.id_u)
        z_s, z_w = (out.map.flatten(1).to(self.distance.weight.dtype) for out in (strong, weak))
        nearness = F.cosine_similarity(self.distance(z_s), self.distance(z_w)).relu()
        sup = each_ce(x.logits, batch.y).mean()
        unsup = pseudo.loss(strong.logits)
        distance = (pseudo.mask * nearness).mean()
        rotation = each_ce(self.rotation(turned.features), turn).mean()
        total = sup + self.lambda_u * unsup
        total = total + self.lambda_distance * distance + self.lambda_rotation * rotation
        terms = {"sup": sup, "unsup": unsup, "distance": distance, "rotation": rotation}
        parts = {name: term.detach() for name, term in terms.items()}
        return Loss(total, {**parts, **self.labeler.report(pseudo)})
