"""Images made of two: what methods mix, with which partners, and what the targets are."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .. import dist


def beta_logit(shape: tuple[int, ...], alpha: float, device: torch.device) -> Tensor:
    """log b − log(1−b) with b ~ Beta(α, α); its sigmoid is b.

    b = g₁/(g₁ + g₂), g ~ Gamma(α), as logarithms: for a small α the g themselves underflow.
    Gamma(α) is distributed as Gamma(α + 1)·U^(1/α).
    """
    gamma = torch._standard_gamma(torch.full((2, *shape), alpha + 1, device=device))
    logs = gamma.log() + torch.rand(2, *shape, device=device).neg().log1p() / alpha
    return logs[0] - logs[1]


def mixup_draw(
    count: int, alpha: float, device: torch.device, each: bool = False
) -> tuple[Tensor, Tensor]:
    """max(b, 1−b), b ~ Beta(α, α), one or `count` of them, and a random partner of each row."""
    lam = beta_logit((count,) if each else (), alpha, device).abs().sigmoid()
    return lam, torch.rand(count, device=device).argsort()


class MixUp:
    """λ·a + (1−λ)·a[partner] of images and of their targets, with one λ for all or for `each` row.

    Views, the labelled one first, are joined before they are mixed. Partners may come from any
    process. With one λ, each process gets its share of each chunk as long as the labelled batch;
    with many, the rows of a process stay its own, in their order.
    """

    def __init__(self, views: Sequence[Tensor], alpha: float, *, each: bool = False) -> None:
        sizes = [dist.world() * len(view) for view in views]
        self.chunk = sizes if each else sizes[0]
        self.lam, self.partner = mixup_draw(sum(sizes), alpha, views[0].device, each)

    def __call__(self, views: Sequence[Tensor]) -> Tensor:
        a = torch.cat([dist.gather(view) for view in views])
        lam = self.lam.to(a.dtype).view(-1, *[1] * (a.dim() - 1))
        return dist.mine(lam * a + (1 - lam) * a[self.partner], self.chunk)

    def partners(self, views: Sequence[Tensor]) -> Tensor:
        """What each row's partner has, such as a mask."""
        return dist.mine(torch.cat([dist.gather(view) for view in views])[self.partner], self.chunk)


class Mixed(NamedTuple):
    """Mixed images, the B labelled ones first, their targets, and which of them count."""

    images: Tensor  # (B + Bu, ...)
    target: Tensor  # (B + Bu, C)
    mask: Tensor  # (B + Bu,)


class Box:
    """A rectangle in images, or one in each: `side` of their height and width, cut at the edges.

    Rows of numbers have a width alone. `side` and the two coordinates of the `centre` are tensors,
    of one value or of one for each image.
    """

    def __init__(self, images: Tensor, side: Tensor, centre: Tensor | Sequence[Tensor]) -> None:
        size = images.shape[-2:] if images.dim() > 2 else (1, images.shape[-1])
        self.spans = [Span(n, side, c) for n, c in zip(size, centre, strict=True)]

    @property
    def inside(self) -> Tensor:
        """(…, H, W): which pixels lie in it."""
        rows, columns = (span.inside for span in self.spans)
        return rows[..., :, None] & columns[..., None, :]

    def paste(self, over: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """`images` in the box, `over` around it; and the share of `over` that is left."""
        inside = self.inside
        shape = (len(over), -1, *inside.shape[-2:])
        chosen = inside if inside.dim() == 2 else inside[:, None]
        mixed = torch.where(chosen, images.reshape(shape), over.reshape(shape))
        return mixed.reshape(over.shape), 1 - inside.to(over.dtype).mean((-2, -1))


class Span:
    """One side of a box: `first` ≤ i < `end`, of i in 0 … size−1."""

    def __init__(self, size: int, side: Tensor, centre: Tensor) -> None:
        self.size, self.cells = size, torch.arange(size, device=side.device)
        half, middle = (size * side).long() // 2, (size * centre).long()
        self.first, self.end = (middle - half).clamp(min=0), (middle + half).clamp(max=size)
        if size == 1:  # nothing can be cut out of it
            self.first, self.end = torch.zeros_like(half), torch.ones_like(half)

    @property
    def inside(self) -> Tensor:
        return (self.cells >= self.first[..., None]) & (self.cells < self.end[..., None])
