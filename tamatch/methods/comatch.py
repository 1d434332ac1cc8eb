"""CoMatch (Li, Xiong and Hoi, 2021, arXiv:2011.11183)."""

import torch
from torch import Tensor, nn

from .. import kinds
from ..dist import gather, share
from ..losses import each_ce, normalize, one_hot
from ..stats import Ring
from ..types import Batch, Loss, Out, Task, Views
from .contrastive import Contrastive


class CoMatch(Contrastive):
    """A memory of similar images smooths pseudo-labels; equal labels should mean near embeddings.

    p = α·DA(p^w) + (1−α)·softmax(f^w·Fᵀ/t)·P,  (F, P) the memory,  m = 1[max p ≥ τ],
    Q = Normalize(ppᵀ with diagonal 1 and entries below T set to 0),  S = softmax(f^{s1}·f^{s2}ᵀ/t),
    L = (1/B) Σ H(y, p(x)) + λ_u · (1/Bu) Σ m·H(p, p^{s1}) + λ_c · (1/Bu) Σ_i H(Q_i, S_i).
    The memory counts after `memory_after` steps, once it is full; before, α = 1. `parity="usb"`
    changes nothing.
    """

    views = Views(u=("weak", "strong", "strong"))

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau: kinds.Tau = 0.95,  # their τ
        link: kinds.Similarity = 0.8,  # their T
        lambda_u: kinds.LambdaU = 1.0,  # their λ_cls
        lambda_contrast: kinds.ContrastWeight = 1.0,  # their λ_ctr
        alpha: kinds.OwnShare = 0.9,  # their α
        temperature: kinds.SimilarityTemperature = 0.2,  # their t
        projection: kinds.EmbeddingWidth = 64,  # length of f
        queue: kinds.MemoryBatches = 32,  # batches in the memory
        window: kinds.AlignedBatches = 32,  # batches in the alignment's mean
        memory_after: kinds.Delay = 1024,  # one epoch of the benchmark
        ema: kinds.WeightMomentum = 0.999,
        **base: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, tau=tau, projection=projection, window=window, ema=ema, **base)
        self.link, self.alpha, self.temperature = link, alpha, temperature
        self.lambda_u, self.lambda_contrast = lambda_u, lambda_contrast
        self.ready = max(memory_after, queue + 1)
        rows = queue * (task.batch_unlabelled + task.batch_labelled)
        self.memory = Ring(rows, f=projection, p=task.classes)

    def compare(self, batch: Batch, *outs: Out) -> Loss:
        x, weak, strong, other = outs
        p = self.remember_(batch, x, weak)
        near = (self.embed(strong) @ gather(self.embed(other)).T / self.temperature).softmax(-1)
        sup = each_ce(x.logits, batch.y).mean()
        unsup, report = self.agreement(strong.logits, p, batch.id_u)
        contrast = -(self.graph(p) * (near + 1e-7).log()).sum(-1).mean()
        total = sup + self.lambda_u * unsup + self.lambda_contrast * contrast
        parts = {"sup": sup.detach(), "unsup": unsup.detach(), "contrast": contrast.detach()}
        return Loss(total, {**parts, **report})

    @torch.no_grad()
    def remember_(self, batch: Batch, x: Out, weak: Out) -> Tensor:
        """The smoothed p; the memory then takes in this batch, unsmoothed."""
        own, f_w, f_x = self.align_(weak), self.embed(weak), self.embed(x)
        memory_f, memory_p = self.memory.get_buffer("f"), self.memory.get_buffer("p")
        near = (f_w @ memory_f.T / self.temperature).softmax(-1) @ memory_p
        p = torch.where(batch.step >= self.ready, self.alpha * own + (1 - self.alpha) * near, own)
        known = one_hot(batch.y, self.task.classes)
        f, labels = (torch.cat([gather(a), gather(b)]) for a, b in ((f_w, f_x), (own, known)))
        self.memory.push_(f=f, p=labels)
        return p

    def graph(self, p: Tensor) -> Tensor:
        """Q: which images should lie together, by their pseudo-labels."""
        links = p @ gather(p).T
        own = share(links.shape[1])
        links[:, own.start : own.stop].fill_diagonal_(1)
        return normalize(links * (links >= self.link))
