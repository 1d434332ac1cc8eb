"""SimMatch (Zheng et al., 2022, arXiv:2203.06915)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import kinds
from ..dist import gather
from ..losses import each_ce, normalize, one_hot
from ..stats import write_by_id_
from ..types import Batch, Loss, Out, Task
from .contrastive import Contrastive


class SimMatch(Contrastive):
    """Weak and strong view must agree on the class and on which labelled images are near.

    p = DA(p^w),  t = softmax(f^w·Mᵀ/T),  q = Normalize(t ⊙ p[label of each row of M]),
    p′ = α·p + (1−α)·(t summed by label),  m = 1[max p′ ≥ τ],
    L = (1/B) Σ H(y, p(x)) + λ_u · (1/Bu) Σ m·H(p′, p^s) + λ_in · (1/Bu) Σ H(q, softmax(f^s·Mᵀ/T)).
    M has one row per labelled image: M_i ← unit(β·M_i + (1−β)·f(x_i)). In the first `memory_after`
    steps α = 1 and λ_in = 0. The paper can embed by an averaged net; here the net itself does.
    `parity="usb"`: M's new rows are normalised across the batch, not each by itself.
    """

    bank: Tensor
    labels: Tensor

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.95,  # their τ
        lambda_u: kinds.LambdaU = 1.0,  # their λ_u
        lambda_instance: kinds.InstanceWeight = 1.0,  # their λ_in
        alpha: kinds.OwnShare = 0.9,  # their α
        temperature: kinds.SimilarityTemperature = 0.1,  # T above, their t
        projection: kinds.EmbeddingWidth = 128,  # length of f
        momentum: kinds.MemoryMomentum = 0.7,  # β, the benchmark's
        window: kinds.AlignedBatches = 32,  # batches in the alignment's mean
        memory_after: kinds.Delay = 1024,  # one epoch of the benchmark
        ema: kinds.WeightMomentum = 0.999,
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, tau=tau, projection=projection, window=window, ema=ema, **base)
        self.alpha, self.temperature, self.memory_after = alpha, temperature, memory_after
        self.lambda_u, self.lambda_instance, self.momentum = lambda_u, lambda_instance, momentum
        self.register_buffer("bank", F.normalize(torch.randn(task.labelled, projection), dim=-1))
        self.register_buffer("labels", torch.zeros(task.labelled, dtype=torch.int64))

    def compare(self, batch: Batch, *outs: Out) -> Loss:
        x, weak, strong = outs
        bank = self.bank.clone()  # backward needs it as it was
        warm = batch.step >= self.memory_after
        with torch.no_grad():
            p = self.align_(weak)
            t = (self.embed(weak) @ bank.T / self.temperature).softmax(-1)
            q = normalize(t * p[:, self.labels])
            by_label = t @ one_hot(self.labels, self.task.classes).to(t)
            p = torch.where(warm, self.alpha * p + (1 - self.alpha) * by_label, p)
            self.remember_(gather(self.embed(x)), gather(batch.id_x), gather(batch.y))
        sup = each_ce(x.logits, batch.y).mean()
        unsup, report = self.agreement(strong.logits, p, batch.id_u)
        instance = each_ce(self.embed(strong) @ bank.T / self.temperature, q).mean()
        total = sup + self.lambda_u * unsup + self.lambda_instance * warm * instance
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), "instance": instance.detach()}
        return Loss(total, {**parts, **report})

    def remember_(self, f: Tensor, ids: Tensor, labels: Tensor) -> None:
        """Move the rows of these labelled images towards their new embeddings."""
        moved = self.momentum * self.bank[ids] + (1 - self.momentum) * f
        write_by_id_(self.bank, ids, F.normalize(moved, dim=0 if self.parity == "usb" else -1))
        write_by_id_(self.labels, ids, labels)
