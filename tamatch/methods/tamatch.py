"""TaMatch: debiased generation and debiased utilization of pseudo-labels (Wang, Yin and Li)."""

from torch import nn

from .. import kinds
from ..pseudo import ByClass, Part
from ..stats import EPS, Status
from ..types import Task
from .fixmatch import FixMatch

LAMBDA_TARGET = 0.99999  # the paper's value where the class shares are unknown


class TaMatch(FixMatch):
    """FixMatch whose pseudo-labels are rescaled and weighted towards a target distribution.

    p_model ← λm·p_model + (1−λm)·E[p^w]              stats.Status.observe_
    p_target ← λt·p_target + (1−λt)·p_model           stats.Status.observe_
    r = p_target / p_model                            stats.Status.ratio
    RE(p^w) = Normalize(p^w ⊙ r)                      pseudo.parts.rescale
    ŷ = argmax RE(p^w)                                pseudo.guess.Guess.label
    m = 1[max RE(p^w) ≥ τ]                            pseudo.parts.Threshold
    w = r(ŷ), clipped to [1, r_max]                   pseudo.parts.ByClass
    r_max = 1 + KL[p_model‖p_target]/(H(p_model)/C)   stats.Status.bound
    L^u = (1/Bu) Σ w·m·H(ŷ, p^s)                      pseudo.guess.Pseudo.loss

    τ = 0.95 and λ_u = 1 as in FixMatch. Ablations: generate="raw" (no rescaling), weigh="even"
    (no weighting), clip="none" (no bound), lambda_target=1 (target does not move).
    """

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        lambda_model: kinds.LambdaModel = 0.999,  # the paper, section "TaMatch Settings"
        lambda_target: kinds.LambdaTarget | None = None,  # 1, but 0.99999 for target="adaptive"
        target: kinds.Target = "uniform",
        clip: kinds.Clip = "literal",
        eps: kinds.Eps = EPS,  # none in the paper: a class that is never predicted has r = ∞
        update: kinds.Update = "before",  # open in the paper; its indices say before
        generate: kinds.Generate | Part = "rescale",
        weigh: kinds.Weigh | Part = "class",
        **fixmatch: kinds.Inherited,
    ) -> None:
        if lambda_target is None:
            lambda_target = LAMBDA_TARGET if target == "adaptive" else 1.0
        start = "uniform" if target == "adaptive" else target
        status = Status(
            task, momentum=lambda_model, target=start, target_momentum=lambda_target,
            eps=eps, late=update == "after",
        )  # fmt: skip
        fixmatch |= {"status": status, "tuned": {"class": ByClass(clip)}}
        super().__init__(net, task, generate=generate, weigh=weigh, **fixmatch)
