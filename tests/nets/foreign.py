"""Nets as a user may bring them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tamatch import nets
from tamatch.nets.base import Net
from tamatch.types import Out


class Wrn(nn.Module):
    """The built-in net, as somebody else might have written it."""

    def __init__(self, classes: int, size: int) -> None:
        super().__init__()
        self.inner = nets.build("wrn_10_1_clean", classes, size)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner(images).logits
        return logits


class Dropping(nn.Module):
    """Dropout, BatchNorm of two kinds, a layer that learns its shape later, a frozen parameter."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.hidden, self.norm1 = nn.LazyLinear(12), nn.BatchNorm1d(12)
        self.drop, self.fc = nn.Dropout(0.5), nn.Linear(12, classes)
        self.still = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        h = self.norm(self.conv(images)).relu().flatten(1)
        out: Tensor = self.fc(self.drop(self.norm1(self.hidden(h)).relu() * self.still))
        return out


class Late(nn.Module):
    """The last layer, too, learns its shape later; a buffer has one number for all its places."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv, self.fc = nn.LazyConv2d(4, 3), nn.LazyLinear(classes)
        self.register_buffer("scale", torch.tensor(2.0).expand(4))

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.fc(self.conv(images).relu().mean((2, 3)) * self.scale)
        return out


class Convolutional(nn.Module):
    """No linear layer at all."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, num_classes, 3)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.conv(images).mean((2, 3))
        return out


class Frozen(nn.Module):
    """Only its last layer learns."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 7, 3, 2), nn.BatchNorm2d(7), nn.ReLU())
        self.fc = nn.Linear(7, classes)
        self.body.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            h = self.body(images).mean((2, 3))
        out: Tensor = self.fc(h)
        return out


class Reading(nn.Module):
    """Python asks for a number, or for a number of numbers."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.fc = nn.Linear(3, classes)

    def forward(self, images: Tensor) -> Tensor:
        h = images.mean((2, 3))
        if h.max() > 100:
            h = h / 2
        out: Tensor = self.fc(h)
        return out


class Masking(Reading):
    def forward(self, images: Tensor) -> Tensor:
        h = images.mean((2, 3))
        out: Tensor = self.fc(h) + h[h > 0].sum()
        return out


class Counting(nn.Module):
    """BatchNorm that averages over all steps reads how many there were."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.norm, self.fc = nn.BatchNorm2d(3, momentum=None), nn.Linear(3, classes)

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.fc(self.norm(images).mean((2, 3)))
        return out


class Viewing(nn.Module):
    """`view` wants the usual order of a tensor's numbers."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4 * 6 * 6, classes)

    def forward(self, images: Tensor) -> Tensor:
        h = self.conv(images)
        out: Tensor = self.fc(h.view(len(h), -1))
        return out


class Rounding(nn.Module):
    """It fails in half precision alone."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(3 * 8 * 8, 6), nn.Linear(6, classes)

    def forward(self, images: Tensor) -> Tensor:
        h = self.body(images.flatten(1))
        total = images.new_zeros(h.shape)
        out: Tensor = self.fc(total.scatter_add(1, torch.zeros_like(h, dtype=torch.int64), h))
        return out


class TwoHeads(nn.Module):
    """The auxiliary head is called last, and is not what is returned."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.LazyLinear(6), nn.Tanh())
        self.main, self.extra = nn.Linear(6, classes), nn.Linear(6, classes)

    def forward(self, images: Tensor) -> Tensor:
        h = self.body(images)
        out: Tensor = self.main(h)
        self.extra(h.sin())
        return out


class Scaled(TwoHeads):
    """Something follows the last layer."""

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.main(self.body(images)) / 3
        return out


class Tied(nn.Module):
    """One tensor under two names."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.one, self.two = nn.LazyLinear(9), nn.Linear(9, 9)
        self.three, self.fc = nn.Linear(9, 9), nn.Linear(9, classes)
        self.three.weight = self.two.weight

    def forward(self, images: Tensor) -> Tensor:
        h = self.one(images.flatten(1)).relu()
        out: Tensor = self.fc(self.three(self.two(h).relu()))
        return out


class Showing(nn.Module):
    """It knows of `Out` and gives a map of its own."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.fc = nn.Linear(3, classes)

    def forward(self, images: Tensor) -> Out:
        features = images.mean((2, 3))
        return Out(self.fc(features), features, images)


class Ours(Net):
    """A subclass of the package's own base class."""

    def __init__(self, classes: int) -> None:
        super().__init__(classes=classes, width=3, map_width=3)
        self.head = nn.Linear(3, classes)

    def forward(self, images: Tensor) -> Out:
        features = images.mean((2, 3))
        return self.finish(features, features)


@dataclass
class Plan:
    """Its annotations are texts, which Python looks up in the module by name."""

    width: int = 5


def planned(classes: int, plan: Plan | None = None) -> nn.Module:
    width = (plan or Plan()).width
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, classes))


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.downsample = nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        out: Tensor = (h + self.downsample(x)).relu()
        return out


class ResNet(nn.Module):
    """A small one with torchvision's names."""

    def __init__(self, num_classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(64), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.layer1, self.layer2 = Block(64, 16, 1), Block(16, 32, 2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(32, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        h = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        out: Tensor = self.fc(self.avgpool(self.layer2(self.layer1(h))).flatten(1))
        return out


def resnet18(*, weights: None = None, progress: bool = True, **options: Any) -> ResNet:
    """Called as torchvision's is."""
    return ResNet(**options)
