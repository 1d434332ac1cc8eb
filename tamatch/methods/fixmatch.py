"""FixMatch (Sohn et al., 2020, arXiv:2001.07685)."""

from collections.abc import Mapping

from torch import Tensor, nn

from .. import kinds
from ..losses import each_ce
from ..modules import Shifted
from ..pseudo import Part, Pseudo, compose
from ..stats import Status, log_shares
from ..types import Batch, Loss, Task
from .base import Method


class FixMatch(Method):
    """The weak view names the class, if confident; the strong view must agree.

    L = (1/B) Σ H(y, p(x)) + λ_u · (1/Bu) Σ w·m·H(ŷ, p^s),  ŷ = argmax p^w,  m = 1[max p^w ≥ τ].

    How pseudo-labels are made, which are used and how much they count (w = 1 here) are free
    choices, by name or as parts from `tamatch.pseudo`. The methods that differ from FixMatch in
    these alone hand down their own choices, `status` and `tuned` parts. Tests see the logits
    z + κ_t·log p_model, κ_t = 0. `parity="usb"` changes nothing.
    """

    compiles = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.95,  # their τ
        lambda_u: kinds.LambdaU = 1.0,  # their λ_u
        generate: kinds.Generate | Part = "raw",
        select: kinds.Select | Part = "fixed",
        weigh: kinds.Weigh | Part = "even",
        test_strength: kinds.TestStrength = 0.0,  # κ_t
        status: Status | None = None,
        tuned: Mapping[str, Part] | None = None,
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.lambda_u, self.test_strength = lambda_u, test_strength
        status = status or Status(task)
        parts = {"generate": generate, "select": select, "weigh": weigh}
        self.labeler = compose(task, status, **parts, tau=tau, tuned=tuned)

    def forward(self, batch: Batch) -> Loss:
        x, weak, strong = self.predict(*batch.x, *batch.u, constant=1)
        pseudo = self.labeler(weak.logits.detach(), x.logits.detach(), batch.id_u)
        sup = each_ce(x.logits, batch.y).mean()
        unsup = pseudo.loss(strong.logits, self.target(pseudo))
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), **self.labeler.report(pseudo)}
        return Loss(sup + self.lambda_u * unsup, parts)

    def target(self, pseudo: Pseudo) -> Tensor:
        """What the strong view must predict: a class, or shares of all classes."""
        return pseudo.label

    @property
    def final_strength(self) -> float | Tensor:
        """κ_t; 0.0: the logits are tested as they are."""
        return self.test_strength

    @property
    def final(self) -> nn.Module:
        net, strength = super().final, self.final_strength
        if isinstance(strength, float) and strength == 0:
            return net
        return Shifted(net, strength * log_shares(self.labeler.status.shares))
