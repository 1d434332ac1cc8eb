"""Unsupervised Data Augmentation, UDA (Xie et al., 2019, arXiv:1904.12848)."""

from torch import Tensor, nn

from .. import kinds
from ..losses import sharpen
from ..pseudo import Pseudo
from ..types import Task
from .fixmatch import FixMatch


class UDA(FixMatch):
    """The strong view must agree with the sharpened prediction on the weak view, if confident.

    L = E[H(y, p(x))] + λ_u·E[m·H(q, p^s)],  q = Normalize((p^w)^(1/T)),  m = 1[max p^w ≥ τ].

    The paper also releases the labelled signal step by step (TSA). `parity="usb"` does not
    sharpen: q = p^w.
    """

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.8,  # their β
        temperature: kinds.Temperature = 0.4,  # their τ
        **fixmatch: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, tau=tau, **fixmatch)
        self.temperature = 1.0 if self.parity == "usb" else temperature

    def target(self, pseudo: Pseudo) -> Tensor:
        return sharpen(pseudo.p, self.temperature)
