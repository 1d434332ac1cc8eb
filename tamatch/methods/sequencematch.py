"""SequenceMatch (Nguyen, WACV 2024, arXiv:2310.15787)."""

from torch import Tensor, nn

from .. import kinds
from ..losses import each_ce, entropy, sharpen
from ..pseudo import Part
from ..types import Batch, Loss, Task, Views
from .fixmatch import FixMatch


class SequenceMatch(FixMatch):
    """FixMatch with a medium view in between: each view must agree with every weaker one.

    L = E[H(y, p(x))] + λ_u·(E[m·H(ŷ, p^s)] + L_seq),
    L_seq = E[m^w·KL(q^w ‖ p^m)] + E[m^m·KL(q^m ‖ p^s)] + E[m^w·KL(q^w ‖ p^s)],
    q = Normalize(p^(1/T)) a constant,  m^w = 1[max p^w ≥ τ],  m^m = 1[max p^m ≥ τ].
    A medium view (p^m) has one operation where a strong one has three.

    As in github.com/beandkay/SequenceMatch. The paper has another loss for images that are not
    sure; neither that code nor the benchmark's has one. `parity="usb"` is the benchmark's: q is
    softmax(p/T), nearly uniform, and all masks are m, by FlexMatch's selection instead of the
    fixed one.
    """

    views = Views(u=("weak", "medium", "strong"))

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.95,  # all as in their code
        temperature: kinds.Temperature = 0.5,
        select: kinds.Select | Part = "fixed",
        parity: kinds.Parity = "ours",
        **fixmatch: kinds.Inherited,
    ) -> None:
        if parity == "usb" and select == "fixed":
            select = "flexmatch"
        super().__init__(net, task, tau=tau, select=select, parity=parity, **fixmatch)
        self.tau, self.temperature = tau, temperature

    def forward(self, batch: Batch) -> Loss:
        x, weak, medium, strong = self.predict(*batch.x, *batch.u, constant=1)
        pseudo = self.labeler(weak.logits.detach(), x.logits.detach(), batch.id_u)
        p_m = medium.logits.detach().softmax(-1)
        q_w, q_m = self.sharpened(pseudo.p), self.sharpened(p_m)
        m_w, m_m = self.sure(pseudo.p, pseudo.mask), self.sure(p_m, pseudo.mask)
        sup = each_ce(x.logits, batch.y).mean()
        unsup = pseudo.loss(strong.logits)
        sequence = (
            (m_w * divergence(q_w, medium.logits)).mean()
            + (m_m * divergence(q_m, strong.logits)).mean()
            + (m_w * divergence(q_w, strong.logits)).mean()
        )
        terms = {"sup": sup, "unsup": unsup, "sequence": sequence}
        parts = {name: term.detach() for name, term in terms.items()}
        total = sup + self.lambda_u * (unsup + sequence)
        return Loss(total, {**parts, **self.labeler.report(pseudo)})

    def sharpened(self, p: Tensor) -> Tensor:
        if self.parity == "usb":  # takes probabilities for logits
            return (p / self.temperature).softmax(-1)
        return sharpen(p, self.temperature)

    def sure(self, p: Tensor, mask: Tensor) -> Tensor:
        return mask if self.parity == "usb" else (p.amax(-1) >= self.tau).to(mask)


def divergence(q: Tensor, logits: Tensor) -> Tensor:
    """KL(q ‖ p) of each row, p = softmax(logits)."""
    return each_ce(logits, q) - entropy(q)
