"""SoftMatch (Chen et al., 2023, arXiv:2301.10921)."""

from torch import nn

from .. import kinds
from ..pseudo import Gaussian, Part
from ..stats import Status
from ..types import Task
from .fixmatch import FixMatch


class SoftMatch(FixMatch):
    """Every pseudo-label is used, with a weight that falls below the mean confidence.

    L = E[H(y, p(x))] + λ_u·E[w·H(ŷ, p^s)],  ŷ = argmax p^w, and w from `pseudo.parts.Gaussian`
    on predictions aligned to the uniform distribution.

    The paper's own code learns μ̂ and σ̂² before the alignment: `learn_from="raw"`.
    `parity="usb"` takes the softmax twice before the weights, which flattens them.
    """

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        momentum: kinds.Momentum = 0.999,  # their m, of p_model as well
        n_sigma: kinds.Sigmas = 2.0,  # the benchmark's n_σ
        learn_from: kinds.LearnFrom = "aligned",
        select: kinds.Select | Part = "all",
        weigh: kinds.Weigh | Part = "gaussian",
        parity: kinds.Parity = "ours",
        **fixmatch: kinds.Inherited,
    ) -> None:
        status = Status(task, momentum=momentum, from_first=True)
        twice = parity == "usb"
        gaussian = Gaussian(task, momentum, n_sigma=n_sigma, learn_from=learn_from, twice=twice)
        fixmatch |= {"status": status, "tuned": {"gaussian": gaussian}, "parity": parity}
        super().__init__(net, task, select=select, weigh=weigh, **fixmatch)
