"""CCL (Zhou et al., NeurIPS 2024): Continuous Contrastive Learning."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, mean_of, normalize, one_hot
from ..machine.precision import without_autocast
from ..pseudo import Pseudo
from ..stats import Ema, Tally, log_shares, start_of_target
from ..types import Batch, Loss, Out, Task, Views
from .base import Head, Method

CLASSES = 0.7  # their λ₁: weight of the losses on classes; the rest is that of labelled contrast
SPREAD = 0.2  # what an image takes over from those that resemble it
SHARP = 4  # power of the labels that contrast is guided by
FIRST = 0.04  # of the run, before class shares are estimated: their 20 of 500 epochs


class CCL(Method):
    """A balanced head z for tests, a plain one g, and embeddings that are compared by labels.

    z̃ = ½(g^w − log π_m + (1 + κ/2)·log π_u) + ½z^w,  q = softmax(z̃),  ŷ = argmax q,
    m = 1[max q ≥ τ],  e = 1[−log Σ exp z̃ ≤ energy],  π_m = (B·π_l + B_u·π_a)/(B + B_u),
    L = 0.7·(E[H(y, g(x))] + E[H(y, z(x) + κ·log π_l)]
             + λ·E[m·H(ŷ, g^s)] + λ·E[m·H(ŷ, z^s + κ·log π_a)]) + λ_c·L_smooth + 0.3·L_known,
    over two strong views, λ = max(1.5, B_u/B). π_l are the labelled class shares, π_u and π_a
    running ones of q where e, and where m.

    f are embeddings of length one, a(f) the mean of exp(f·f'/t) over the f' of each class: those of
    two strong views of x, and one of each class's weights in g that counts for all classes.
    L_known = E[H(q̄, Normalize(a(f)))] over x, and u where e: q̄ their labels, or Normalize(q⁴); f'
    are then all of these but f itself. L_smooth = ⅓(H(p̄_w, p_1) + H(p̄_w, p_2) + H(p_12)), with
    p = (1−0.2)·(I − 0.2·softmax(f·fᵀ))⁻¹·Normalize(a(f)) for all u, p̄ = Normalize(p⁴), and p_12
    the mean of those of both strong views.

    Here the strong views of x are those of u, the embeddings have no BatchNorm, and π_u, π_a are
    renewed in each step; the published code has views of SimCLR, takes class weights from z, and
    renews once an epoch. `parity="usb"` changes nothing.
    """

    views = Views(("weak", "strong", "strong"), ("weak", "strong", "strong"))
    labelled: Tensor  # π_l

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.95,  # all as in their code
        strength: kinds.Strength = 2.0,  # their τ
        energy: kinds.EnergyBound = -8.75,
        temperature: kinds.SimilarityTemperature = 0.1,  # t
        lambda_contrast: kinds.ContrastWeight = 1.0,  # λ_c, their λ₂
        momentum: kinds.Momentum = 0.999,  # 0.5 and 0.95 in an epoch of 500 steps
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, **base)
        self.tau, self.strength, self.energy = tau, strength, energy
        self.temperature, self.lambda_contrast = temperature, lambda_contrast
        many = task.batch_unlabelled / task.batch_labelled
        self.lambda_u, self.pool_part = max(1.5, many), many / (1 + many)
        self.second = Head(net, task)
        width = cast(int, net.width)
        self.project, self.centre = (projector(width) for _ in range(2))
        self.pool = Ema(start_of_target(task, "uniform"), momentum)  # π_u
        self.used = Ema(start_of_target(task, "labelled"), momentum)  # π_a
        self.tally = Tally(task)
        self.register_buffer("labelled", start_of_target(task, "labelled"))

    def forward(self, batch: Batch) -> Loss:
        outs = self.predict(*batch.x, *batch.u, constant=3)
        with without_autocast(batch.y.device):  # similarities divided by a small t
            return self.compare(batch, *outs)

    def compare(self, batch: Batch, x: Out, *others: Out) -> Loss:
        """The loss, from the net's outputs for each view of the batch."""
        known, weak, strong = others[:2], others[2], others[3:]
        logits = self.opinion(weak).detach()
        pseudo, sure = self.labels(logits)
        at_x, at_u = (self.strength * log_shares(s) for s in (self.labelled, self.used.value))
        sup = each_ce(x.logits + at_x, batch.y).mean() + each_ce(self.second(x), batch.y).mean()
        unsup = mean_of([pseudo.loss(out.logits + at_u) for out in strong])
        unsup = unsup + mean_of([pseudo.loss(self.second(out)) for out in strong])

        centres = embed(self.centre, self.second.weight)
        keys, f_w, f_1, f_2 = (
            dist.gather(torch.cat([embed(self.project, out.features) for out in views]))
            for views in (known, (weak,), strong[:1], strong[1:])
        )
        every = torch.ones_like(self.second.weight[:, :1]).expand(-1, self.task.classes)
        y = one_hot(dist.gather(batch.y.repeat(len(known))), self.task.classes)
        labels = torch.cat([every, y])
        q = dist.gather(normalize(pseudo.p**SHARP) * sure[:, None])
        contrast = self.known(torch.cat([centres, keys, f_1, f_2]), torch.cat([labels, q, q]))
        smooth = self.smooth(torch.cat([centres, keys]), labels, f_w.detach(), f_1, f_2)

        self.learn_(pseudo, sure, batch.progress)
        self.tally.add_(batch.id_u, pseudo.mask)
        terms = {"sup": sup, "unsup": unsup, "contrast": contrast, "smooth": smooth}
        parts = {name: term.detach() for name, term in terms.items()}
        total = CLASSES * (sup + self.lambda_u * unsup) + (1 - CLASSES) * contrast
        return Loss(
            total + self.lambda_contrast * smooth,
            {**parts, **pseudo.report(), "p_model": self.pool.value},
        )

    def opinion(self, weak: Out) -> Tensor:
        """z̃: the mean of both heads, the plain one moved from its shares to the pool's."""
        learnt = (1 - self.pool_part) * self.labelled + self.pool_part * self.used.value
        moved = (1 + self.strength / 2) * log_shares(self.pool.value) - log_shares(learnt)
        other: Tensor = self.second(weak)
        return (other + moved + weak.logits) / 2

    def labels(self, logits: Tensor) -> tuple[Pseudo, Tensor]:
        """The pseudo-labels, and which images are sure by their energy."""
        q = logits.softmax(-1)
        mask = (q.amax(-1) >= self.tau).float()
        sure = (-logits.logsumexp(-1) <= self.energy).float()
        return Pseudo(q, q.argmax(-1), mask, torch.ones_like(mask)), sure

    def known(self, f: Tensor, labels: Tensor) -> Tensor:
        """L_known over all rows but the centres; a row without a label does not count."""
        near = (f @ f.T / self.temperature).exp()
        others = near * (1 - torch.eye(len(f), device=f.device, dtype=f.dtype))
        a = others @ labels / (labels.sum(0) - labels)
        loss = each_ce(a.log(), labels)[self.task.classes :]
        return loss.sum() / labels[self.task.classes :].sum().clamp(min=1)

    def smooth(self, keys: Tensor, labels: Tensor, *f: Tensor) -> Tensor:
        """L_smooth of a weak and two strong views."""
        p_w, p_1, p_2 = (self.spread(view, keys, labels) for view in f)
        aim = normalize(p_w**SHARP).detach()
        both = (p_1 + p_2) / 2
        pairs = ((aim, p_1), (aim, p_2), (both, both))
        return mean_of([-(p * q.log()).sum(-1).mean() for p, q in pairs])

    def spread(self, f: Tensor, keys: Tensor, labels: Tensor) -> Tensor:
        """p: classes by labelled embeddings, spread among images that resemble each other.

        (I − A)⁻¹ is Σ Aᵏ, up to the fifteenth power: a solver would wait for the device.
        """
        a = (f @ keys.T / self.temperature).exp() @ labels / labels.sum(0)
        p, power = (1 - SPREAD) * normalize(a), SPREAD * (f @ f.T).softmax(-1)
        for _ in range(4):
            p, power = p + power @ p, power @ power
        return p

    def learn_(self, pseudo: Pseudo, sure: Tensor, progress: Tensor) -> None:
        """Update π_u and π_a, but for the beginning of the run."""
        late = (progress >= FIRST).double()
        for shares, kept in ((self.pool, sure), (self.used, pseudo.mask)):
            count = (kept[:, None] * pseudo.p).double().sum(0)
            shares.update_share_(late * dist.sum_(count))


def projector(width: int) -> nn.Sequential:
    """Two layers from features to embeddings."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * width))


def embed(layers: nn.Module, features: Tensor) -> Tensor:
    """Rows of length one."""
    return F.normalize(layers(features), dim=-1)
