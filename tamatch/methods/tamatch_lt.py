"""TaMatch-LT: TaMatch for long tails, with the ratio r in the logits of both losses."""

from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, mean_of, one_hot
from ..pseudo import Part, Pseudo
from ..stats import Ema, FittedStrength, Status, log_shares, start_of_target
from ..types import Batch, Loss, Out, Task, Views
from .base import Head
from .fixmatch import FixMatch


class TaMatchLT(FixMatch):
    """FixMatch whose net learns for equal class shares, though labels and pool have others.

    r = p_target / p_model,  p_target = 1/C           stats.Status.ratio
    z̃ = ½z^w + ½(g^w + log r_g)                       opinion
    p̃ = Normalize(softmax(z̃) / r),  ŷ = argmax p̃      pseudo.parts.pool
    p_model ← λm·p_model + (1−λm)·E[p̃]                stats.Status.observe_
    m = 1[max p̃ ≥ τ]                                  pseudo.parts.Threshold
    L = H(y, softmax(z − κ·log r_l)) + λ_u·w·m·H(ŷ, softmax(z^s − κ·log r))     the net's logits z
      + H(y, softmax(g)) + λ_u·w·m·H(ŷ, softmax(g^s)), in the mean              a second head g

    The labelled losses are means over a weak and a strong view, since few labels are soon learnt by
    heart. r_l and r_g are p_target over the labelled class shares, and over the mean of these and
    p_model.
    `heads=1` has no g, and z̃ = z^w. `used="accepted"`: r in the loss is that of the accepted
    labels. `fit_test`: κ_t is what fits the strong views of labelled images as if classes had
    equally many (`stats.FittedStrength`), plus `test_strength`. `parity="usb"` changes nothing.
    """

    compiles = True
    labelled: Tensor  # class shares

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        strength: kinds.Strength = 2.0,  # κ, as in ACR, CCL and SimPro
        lambda_model: kinds.LambdaModel = 0.999,
        used: kinds.UsedShares = "pool",
        heads: kinds.Heads = 2,
        strong_views: kinds.StrongViews = 1,
        labelled_views: kinds.LabelledViews = 2,
        fit_test: kinds.FitTest = False,
        generate: kinds.Generate | Part = "pool",
        **fixmatch: kinds.Inherited,
    ) -> None:
        status = Status(task, momentum=lambda_model, of="generated")
        super().__init__(net, task, generate=generate, status=status, **fixmatch)
        self.strength = strength
        more = ("strong",) * (labelled_views - 1)
        self.views = Views(("weak", *more), ("weak", *("strong",) * strong_views))
        self.register_buffer("labelled", start_of_target(task, "labelled"))
        uniform = start_of_target(task, "uniform")
        self.used = Ema(uniform, lambda_model) if used == "accepted" else None
        self.second = Head(net, task) if heads == 2 else None
        self.fitted = FittedStrength(task, lambda_model) if fit_test else None

    def forward(self, batch: Batch) -> Loss:
        count = len(batch.x)
        outs = self.predict(*batch.x, *batch.u, constant=count)
        x, weak, strong = outs[:count], outs[count], outs[count + 1 :]
        logits = self.opinion(weak).detach()
        pseudo = self.labeler(logits, x[0].logits.detach(), batch.id_u)
        at_x = self.strength * log_shares(self.labelled)
        at_u = self.strength * log_shares(self.used_shares(pseudo))
        if self.fitted is not None:
            self.fitted.update_(x[-1].logits, batch.y, log_shares(self.labeler.status.shares))
        sup = mean_of([each_ce(out.logits + at_x, batch.y).mean() for out in x])
        unsup = mean_of([pseudo.loss(out.logits + at_u) for out in strong])
        terms = {"sup": sup, "unsup": unsup}
        total = sup + self.lambda_u * unsup
        if self.second is not None:
            plain = mean_of([each_ce(self.second(out), batch.y).mean() for out in x])
            follow = mean_of([pseudo.loss(self.second(out)) for out in strong])
            terms["second"] = plain + self.lambda_u * follow
            total = total + terms["second"]
        parts = {name: term.detach() for name, term in terms.items()}
        return Loss(total, {**parts, **self.labeler.report(pseudo)})

    def used_shares(self, pseudo: Pseudo) -> Tensor:
        """The class shares of what L^u learns from."""
        if self.used is None:
            return self.labeler.status.shares
        chosen = one_hot(pseudo.label, self.task.classes) * pseudo.mask[:, None]
        return self.used.update_share_(dist.mean_(chosen.double().mean(0)))

    def opinion(self, weak: Out) -> Tensor:
        """Logits for equal class shares: the net's, or their mean with those of the second head."""
        if self.second is None:
            return weak.logits
        learnt = (self.labelled + self.labeler.status.shares) / 2
        other: Tensor = self.second(weak)
        return (weak.logits + other - log_shares(learnt)) / 2

    @property
    def final_strength(self) -> float | Tensor:
        fixed = super().final_strength
        return fixed if self.fitted is None else fixed + self.fitted.value.float()
