"""FlexMatch (Zhang et al., 2021, arXiv:2110.08263)."""

from torch import nn

from .. import kinds
from ..pseudo import Curriculum, Part
from ..types import Task
from .fixmatch import FixMatch


class FlexMatch(FixMatch):
    """FixMatch whose threshold is lower for classes that are learnt less: curriculum labelling.

    m = 1[max p^w ≥ τ·β_ŷ/(2−β_ŷ)], with β from `pseudo.parts.Curriculum`; L as in FixMatch.
    `parity="usb"` changes nothing; with several processes all share one memory.
    """

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.95,  # their τ
        threshold_warmup: kinds.WarmThreshold = True,  # theirs: images never selected hold β down
        select: kinds.Select | Part = "flexmatch",
        **fixmatch: kinds.Inherited,
    ) -> None:
        tuned = {"flexmatch": Curriculum(task, tau, warmup=threshold_warmup)}
        super().__init__(net, task, tau=tau, select=select, tuned=tuned, **fixmatch)
