"""A method in a plain PyTorch loop, with a net, views and an optimizer of your own.

python examples/own_loop.py fixmatch
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

import tamatch

View = Callable[[Tensor], Tensor]
adam = partial(torch.optim.AdamW, lr=2e-3, weight_decay=0.01)
sgd = partial(torch.optim.SGD, lr=0.03, momentum=0.9, nesterov=True, weight_decay=5e-4)


def train(
    method: str, net: nn.Module, labelled: Tensor, y: Tensor, pool: Tensor,
    views: Mapping[str, View], steps: int = 600, batch: int = 32,
    optimizer_of: Callable[..., torch.optim.Optimizer] = adam, **options: Any,
) -> tamatch.SSLLoss:  # fmt: skip
    """Train the net on labelled inputs and a pool; `views` makes each view by its name."""
    ssl = tamatch.SSLLoss(
        method, net, labelled[:2], labels=y, unlabelled=len(pool), steps=steps,
        batch=(batch, 4 * batch), **options,
    )  # fmt: skip
    optimizer = optimizer_of(ssl.parameters())
    schedule = LambdaLR(optimizer, lambda step: math.cos(7 / 16 * math.pi * step / steps))
    for _ in range(steps):
        i = torch.randint(len(labelled), (batch,))
        j = torch.randint(len(pool), (4 * batch,))
        x = [views[name](labelled[i]) for name in ssl.views.x]
        u = [views[name](pool[j]) for name in ssl.views.u]
        loss = ssl(x, y[i], u, id_x=i, id_u=j)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        ssl.after_step()
    return ssl


def moved(images: Tensor, pixels: float, degrees: float) -> Tensor:
    """Each image shifted and turned by its own amount."""
    angle = (2 * torch.rand(len(images)) - 1) * degrees / 57.3
    shift = (2 * torch.rand(len(images), 2) - 1) * 2 * pixels / images.shape[-1]
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).view(-1, 2, 2)
    grid = F.affine_grid(torch.cat([turn, shift[..., None]], -1), images.shape, False)
    return F.grid_sample(images, grid, align_corners=False)


def weak(images: Tensor) -> Tensor:
    return moved(images, pixels=0.5, degrees=0)


def strong(images: Tensor) -> Tensor:
    """Moved further, with another contrast, noise and a missing square."""
    contrast = 0.5 + torch.rand(len(images), 1, 1, 1)
    noisy = contrast * moved(images, 1, 20) + 0.1 * torch.randn_like(images)
    row, column = torch.randint(8, (2, len(images), 1, 1, 1))
    at = torch.arange(8)
    hidden = ((at[:, None] - row).abs() < 2) & ((at - column).abs() < 2)
    return noisy * ~hidden


class SmallCNN(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(64, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.body(images))


def digits(per_class: int = 4) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Labelled images and their labels, the pool, test images and their labels."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32)[:, None] / 8 - 1
    labels = torch.tensor(data.target)
    order = torch.randperm(len(images))
    test, rest = order[:500], order[500:]
    first = torch.cat([rest[labels[rest] == c][:per_class] for c in range(10)])
    return images[first], labels[first], images[rest], images[test], labels[test]


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y, pool, test, truth = digits()
    method = sys.argv[1] if len(sys.argv) > 1 else "fixmatch"
    ssl = train(method, SmallCNN(10), x, y, pool, {"weak": weak, "strong": strong}, ema=0.99)
    wrong = ssl.logits(test).argmax(-1) != truth
    print(f"{method}: error {100 * wrong.float().mean():.1f} %, loss {ssl.parts['sup']:.3f}")
