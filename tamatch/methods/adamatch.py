"""AdaMatch (Berthelot et al., 2021, arXiv:2106.04732)."""

from torch import nn

from .. import kinds
from ..pseudo import Part
from ..stats import Status
from ..types import Task
from .fixmatch import FixMatch


class AdaMatch(FixMatch):
    """FixMatch with predictions aligned to the labelled ones and a threshold relative to them.

    p̃ = Normalize(p^w ⊙ p_target/p_model),  p_target ← λ·p_target + (1−λ)·E[p(x)],
    m = 1[max p̃ ≥ τ·E[max p(x)]],  ŷ = argmax p̃,  L = E[H(y, p(x))] + λ_u·E[m·H(ŷ, p^s)].

    The paper also interpolates logits at random, passes the net twice for BatchNorm and ramps
    λ_u up. `parity="usb"` changes nothing.
    """

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        momentum: kinds.Momentum = 0.999,  # the benchmark's λ of both averages
        generate: kinds.Generate | Part = "rescale",
        select: kinds.Select | Part = "relative",
        **fixmatch: kinds.Inherited,
    ) -> None:
        status = Status(
            task, momentum=momentum, target_momentum=momentum, follow="labelled", from_first=True
        )
        super().__init__(net, task, generate=generate, select=select, status=status, **fixmatch)
