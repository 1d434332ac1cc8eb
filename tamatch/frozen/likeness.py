"""How far an image that was not in the pool belongs to the classes at all.

    d = direction of the scaled features                           features.Space
    s = cosine of d with the mean v of the nearest class           v as in `junk`
    like a class = Φ((s − m) / σ + SLACK), m and σ those of s over the pool, which counts by weight
    unlike the junk = softmax(W·d), fitted to the weights of the pool
    belongs = the product of the two

The first factor finds junk of a kind that was not in the pool, the second one what was. Neither
needs the images of the pool again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from .blocks import widened
from .choose import sample
from .features import DRAWN_TOGETHER, LENGTH, Scaling, Space
from .junk import NOTHING, SLACK
from .regression import fit, logits
from .solver import class_means

POOL = 3000  # images that it is learnt from
PREFIX = "likeness/"  # of its tensors among those of a model


@dataclass(frozen=True)
class Likeness:
    """For features of width D and C classes."""

    mean: Tensor  # (D,) and …
    matrix: Tensor  # (D, D): the scaling of the features
    classes: Tensor  # (C, D) directions of the class means
    usual: Tensor  # (2,) m and σ
    head: Tensor  # (2, D + 1): W, of junk and of what is none

    @classmethod
    def of(
        cls, features: Tensor, labels: Tensor, pool: Tensor, weight: Tensor, classes: int,
        none: Tensor,
    ) -> Self:  # fmt: skip
        """From a pool whose images belong by `weight`; `none` are marked as no class."""
        some = sample(len(pool), POOL, torch.empty(0, dtype=torch.int64)).to(pool.device)
        pool, weight = pool[some], weight[some].to(pool)
        space = Space.of(torch.cat([features, pool]))
        v = space.smoothed(DRAWN_TOGETHER)[: len(labels)]
        means = F.normalize(class_means(v, labels, classes), dim=1)
        d = space.unit[len(labels) :]
        s = (d @ means.T).amax(1)
        m = weight @ s / weight.sum()
        deviation = (weight @ (s - m).square() / weight.sum() + NOTHING**2).sqrt()
        rows = LENGTH * torch.cat([d, space.scaled(none), d, space.unit[: len(labels)]])
        junk = len(pool) + len(none)
        belongs = torch.arange(len(rows), device=rows.device) >= junk
        amounts = torch.cat([1 - weight, weight.new_ones(len(none))])
        amounts = torch.cat([amounts, weight, weight.new_ones(len(labels))])
        head = fit(rows, belongs.long(), amounts, 2)
        scaling = space.scaling
        return cls(scaling.mean, scaling.matrix, means, torch.stack([m, deviation]), head)

    def __call__(self, features: Tensor) -> Tensor:
        """belongs of each row, 0 … 1."""
        d = F.normalize(Scaling(self.mean, self.matrix)(features), dim=1)
        m, deviation = self.usual
        like: Tensor = torch.special.ndtr(((d @ self.classes.T).amax(1) - m) / deviation + SLACK)
        return like * logits(LENGTH * d, self.head).softmax(1)[:, 1]

    def widened(self, width: int) -> Self:
        """The same for features with more columns, which it passes over."""
        more = width - len(self.mean)
        return type(self)(
            F.pad(self.mean, (0, more)), F.pad(self.matrix, (0, more, 0, more)),
            F.pad(self.classes, (0, more)), self.usual, widened(self.head, width),
        )  # fmt: skip

    def cpu(self) -> Self:
        return type(self)(*(tensor.cpu() for tensor in self.tensors().values()))

    def tensors(self) -> dict[str, Tensor]:
        """As they are saved with a model."""
        return {PREFIX + field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def taken_from(cls, saved: dict[str, Tensor], classes: int) -> Self | None:
        """Out of the tensors of a model, which keep the others; None if it has none."""
        own = {name: saved.pop(name) for name in [*saved] if name.startswith(PREFIX)}
        if not own:
            return None
        found = cls(**{name.removeprefix(PREFIX): tensor for name, tensor in own.items()})
        width = len(found.mean)
        shapes = (width,), (width, width), (classes, width), (2,), (2, width + 1)
        for field, shape in zip(fields(cls), shapes, strict=True):
            if getattr(found, field.name).shape != shape:
                raise ValueError(f"{field.name} of its likeness has another shape")
        return found
